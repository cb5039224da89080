// SPDX-License-Identifier: LGPL-2.1-or-later
#include "elements/gstcudacaps.h"

#include <array>

#include "gst/cudaframe/gstcudaframe-private.h"

using cudaframe::ChromaSiting;
using cudaframe::ColorDescription;
using cudaframe::ColorMatrix;
using cudaframe::ColorRange;
using cudaframe::PixelFormat;
using cudaframe::Result;
using cudaframe::Status;
using cudaframe::StatusCode;
using cudaframe::memory::FrameLayout;
using cudaframe::memory::kMaxPlanes;

bool gst_cuda_caps_has_frame_feature(const GstCaps* caps) {
  if (!caps || gst_caps_is_any(caps) || gst_caps_is_empty(caps)) return false;
  const GstCapsFeatures* features = gst_caps_get_features(caps, 0);
  return features && gst_caps_features_contains(features, GST_CAPS_FEATURE_MEMORY_CUDA_FRAME);
}

GstCaps* gst_cuda_caps_with_memory(const GstCaps* caps, bool cuda_frame) {
  GstCaps* copy = gst_caps_copy(caps);
  gst_caps_set_features_simple(
      copy, cuda_frame ? gst_caps_features_new(GST_CAPS_FEATURE_MEMORY_CUDA_FRAME, nullptr)
                       : gst_caps_features_new(GST_CAPS_FEATURE_MEMORY_SYSTEM_MEMORY, nullptr));
  return copy;
}

bool gst_cuda_video_info_from_caps(GstVideoInfo* info, const GstCaps* caps) {
  if (!gst_video_info_from_caps(info, caps)) return false;
  // Without colorimetry, gst_video_info_from_caps() puts its defaults over the caps' siting too.
  const char* site = gst_structure_get_string(gst_caps_get_structure(caps, 0), "chroma-site");
  if (site) GST_VIDEO_INFO_CHROMA_SITE(info) = gst_video_chroma_site_from_string(site);
  return true;
}

Result<PixelFormat> gst_cuda_format_of(const GstVideoInfo& info) {
  PixelFormat format;
  if (gst_cuda_frame_format_from_video(GST_VIDEO_INFO_FORMAT(&info), &format)) return format;
  return Status(StatusCode::not_supported,
                std::string("pixel format ") +
                    gst_video_format_to_string(GST_VIDEO_INFO_FORMAT(&info)) + " is not supported");
}

Result<FrameLayout> gst_cuda_host_layout(const GstVideoInfo& info) {
  Result<PixelFormat> format = gst_cuda_format_of(info);
  if (!format) return format.status();
  std::array<std::size_t, kMaxPlanes> offsets{};
  std::array<std::size_t, kMaxPlanes> pitches{};
  for (guint i = 0; i < GST_VIDEO_INFO_N_PLANES(&info); ++i) {
    offsets[i] = GST_VIDEO_INFO_PLANE_OFFSET(&info, i);
    pitches[i] = static_cast<std::size_t>(GST_VIDEO_INFO_PLANE_STRIDE(&info, i));
  }
  return cudaframe::memory::make_layout(*format, GST_VIDEO_INFO_WIDTH(&info),
                                        GST_VIDEO_INFO_HEIGHT(&info), offsets, pitches,
                                        GST_VIDEO_INFO_SIZE(&info));
}

Result<FrameLayout> gst_cuda_device_layout(const GstVideoInfo& info) {
  Result<PixelFormat> format = gst_cuda_format_of(info);
  if (!format) return format.status();
  return cudaframe::memory::make_device_layout(*format, GST_VIDEO_INFO_WIDTH(&info),
                                               GST_VIDEO_INFO_HEIGHT(&info));
}

static std::string name_of(GstVideoColorMatrix matrix) {
  auto* values = static_cast<GEnumClass*>(g_type_class_ref(GST_TYPE_VIDEO_COLOR_MATRIX));
  const GEnumValue* value = g_enum_get_value(values, matrix);
  std::string name = value ? value->value_nick : std::to_string(static_cast<int>(matrix));
  g_type_class_unref(values);
  return name;
}

static Result<ColorMatrix> matrix_of(GstVideoColorMatrix matrix) {
  switch (matrix) {
    case GST_VIDEO_COLOR_MATRIX_BT601:
    case GST_VIDEO_COLOR_MATRIX_UNKNOWN:  // as GStreamer takes it for standard definition
      return ColorMatrix::bt601;
    case GST_VIDEO_COLOR_MATRIX_BT709:
      return ColorMatrix::bt709;
    case GST_VIDEO_COLOR_MATRIX_BT2020:
      return ColorMatrix::bt2020_ncl;
    default:
      return Status(StatusCode::not_supported,
                    "colour matrix " + name_of(matrix) + " is not supported");
  }
}

Result<ColorDescription> gst_cuda_color_of(const GstVideoInfo& info) {
  const GstVideoColorimetry& colorimetry = GST_VIDEO_INFO_COLORIMETRY(&info);
  Result<ColorMatrix> matrix = matrix_of(colorimetry.matrix);
  if (!matrix) return matrix.status();
  const GstVideoChromaSite site = GST_VIDEO_INFO_CHROMA_SITE(&info);
  const bool unset = site == GST_VIDEO_CHROMA_SITE_UNKNOWN;
  const bool horizontal = unset || (site & GST_VIDEO_CHROMA_SITE_H_COSITED) != 0;
  const bool vertical = !unset && (site & GST_VIDEO_CHROMA_SITE_V_COSITED) != 0;
  return ColorDescription{.matrix = *matrix,
                          .range = colorimetry.range == GST_VIDEO_COLOR_RANGE_0_255
                                       ? ColorRange::full
                                       : ColorRange::limited,
                          .horizontal = horizontal ? ChromaSiting::cosited : ChromaSiting::centered,
                          .vertical = vertical ? ChromaSiting::cosited : ChromaSiting::centered};
}
