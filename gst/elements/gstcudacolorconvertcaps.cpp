// SPDX-License-Identifier: LGPL-2.1-or-later
#include "elements/gstcudacolorconvertcaps.h"

#include <gst/video/video.h>

#include "elements/gstcudacaps.h"
#include "gst/cudaframe/gstcudaframe-prelude.h"

namespace {

constexpr const char* kRgbFormats[] = {"RGB", "BGR", "RGBA", "BGRA", "RGBx", "BGRx", "RGBP", "GBR"};
constexpr const char* kNv12 = "NV12";

void append_string(GValue* list, const char* text) {
  GValue value = G_VALUE_INIT;
  g_value_init(&value, G_TYPE_STRING);
  g_value_set_static_string(&value, text);
  gst_value_list_append_and_take_value(list, &value);
}

bool allows_format(const GstStructure* structure, const char* format) {
  GValue one = G_VALUE_INIT;
  g_value_init(&one, G_TYPE_STRING);
  g_value_set_static_string(&one, format);
  const GValue* formats = gst_structure_get_value(structure, "format");
  const bool allows = !formats || gst_value_intersect(nullptr, formats, &one);
  g_value_unset(&one);
  return allows;
}

/// What a conversion changes is left open: format and all that describes colours.
GstStructure* without_colors(const GstStructure* structure) {
  GstStructure* copy = gst_structure_copy(structure);
  gst_structure_remove_fields(copy, "format", "colorimetry", "chroma-site", nullptr);
  return copy;
}

/// Formats on the other side: NV12 is made from nothing, RGB forms from everything.
void set_other_formats(GstPadDirection direction, const GstStructure* from, GstStructure* to) {
  bool allows_rgb = false;
  for (const char* format : kRgbFormats) allows_rgb |= allows_format(from, format);
  const bool allows_nv12 = allows_format(from, kNv12);
  const bool to_nv12 = direction == GST_PAD_SRC ? allows_rgb : false;
  const bool to_rgb = direction == GST_PAD_SRC ? allows_rgb : allows_rgb || allows_nv12;
  GValue formats = G_VALUE_INIT;
  g_value_init(&formats, GST_TYPE_LIST);
  if (to_nv12) append_string(&formats, kNv12);
  if (to_rgb) {
    for (const char* format : kRgbFormats) append_string(&formats, format);
  }
  gst_structure_take_value(to, "format", &formats);
}

void append_with_both_memories(GstCaps* caps, GstStructure* structure) {
  gst_caps_append_structure_full(
      caps, gst_structure_copy(structure),
      gst_caps_features_new(GST_CAPS_FEATURE_MEMORY_CUDA_FRAME, nullptr));
  gst_caps_append_structure_full(caps, structure, nullptr);
}

bool has_format(const GstStructure* structure, const char* format) {
  return format && allows_format(structure, format);
}

/// The index of the best structure: see the header.
guint best_structure(const GstCaps* candidates, const char* input_format) {
  guint best = 0;
  int best_score = -1;
  for (guint i = 0; i < gst_caps_get_size(candidates); ++i) {
    const GstCapsFeatures* features = gst_caps_get_features(candidates, i);
    const bool in_cuda = gst_caps_features_contains(features, GST_CAPS_FEATURE_MEMORY_CUDA_FRAME);
    const int score = 2 * in_cuda + has_format(gst_caps_get_structure(candidates, i), input_format);
    if (score <= best_score) continue;
    best = i;
    best_score = score;
  }
  return best;
}

/// Where downstream leaves a choice, `text` is taken if it is among them.
void set_or_pick(GstStructure* structure, const char* field, const char* text) {
  if (gst_structure_has_field(structure, field)) {
    gst_structure_fixate_field_string(structure, field, text);
  } else {
    gst_structure_set(structure, field, G_TYPE_STRING, text, nullptr);
  }
}

/// RGB made from YCbCr keeps primaries and transfer function; only the matrix is undone, and the
/// range is full.
void describe_colors(const GstCaps* input, GstStructure* output) {
  GstVideoInfo info;
  if (!gst_video_info_from_caps(&info, input)) return;
  if (!GST_VIDEO_INFO_IS_YUV(&info)) {
    const char* same = gst_structure_get_string(gst_caps_get_structure(input, 0), "colorimetry");
    if (same) set_or_pick(output, "colorimetry", same);
    return;
  }
  GstVideoColorimetry colorimetry = GST_VIDEO_INFO_COLORIMETRY(&info);
  colorimetry.matrix = GST_VIDEO_COLOR_MATRIX_RGB;
  colorimetry.range = GST_VIDEO_COLOR_RANGE_0_255;
  gchar* text = gst_video_colorimetry_to_string(&colorimetry);
  set_or_pick(output, "colorimetry", text);
  g_free(text);
}

}  // namespace

GstCaps* gst_cuda_color_convert_transform_caps(GstPadDirection direction, const GstCaps* caps) {
  GstCaps* result = gst_caps_new_empty();
  // The same picture in the other memory first: nothing is lost.
  for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
    append_with_both_memories(result, gst_structure_copy(gst_caps_get_structure(caps, i)));
  }
  for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
    const GstStructure* from = gst_caps_get_structure(caps, i);
    GstStructure* to = without_colors(from);
    set_other_formats(direction, from, to);
    if (gst_value_list_get_size(gst_structure_get_value(to, "format")) == 0) {
      gst_structure_free(to);
      continue;
    }
    append_with_both_memories(result, to);
  }
  return gst_caps_simplify(result);
}

GstCaps* gst_cuda_color_convert_fixate_output(const GstCaps* input, GstCaps* candidates) {
  const char* format = gst_structure_get_string(gst_caps_get_structure(input, 0), "format");
  const guint best = best_structure(candidates, format);
  GstCaps* picked = gst_caps_copy_nth(candidates, best);
  GstStructure* structure = gst_caps_get_structure(picked, 0);
  if (has_format(structure, format)) {
    gst_structure_fixate_field_string(structure, "format", format);
  }
  gst_structure_fixate_field(structure, "format");
  if (g_strcmp0(gst_structure_get_string(structure, "format"), format) != 0) {
    describe_colors(input, structure);
  } else {
    // Only the memory changes: the colours are the input's.
    for (const char* field : {"colorimetry", "chroma-site"}) {
      const GValue* value = gst_structure_get_value(gst_caps_get_structure(input, 0), field);
      if (value) gst_structure_set_value(structure, field, value);
    }
  }
  return gst_caps_fixate(picked);
}
