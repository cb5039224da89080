// SPDX-License-Identifier: LGPL-2.1-or-later
#include "cuvid_decoder.h"

#include <algorithm>
#include <utility>

#include "sim_internal.h"

namespace cudaframe::sim {
namespace {

constexpr unsigned kMaxDecodeSurfaces = 32;
constexpr unsigned kMaxOutputSurfaces = 64;

template <typename Rectangle>
bool is_inside(const Rectangle& area, unsigned long width, unsigned long height) {
  return area.left >= 0 && area.top >= 0 && area.left <= area.right && area.top <= area.bottom &&
         area.right <= static_cast<long>(width) && area.bottom <= static_cast<long>(height);
}

/// A null display area means the whole picture. False when it doesn't fit the size.
bool complete_area(CUVIDDECODECREATEINFO* info) {
  auto& area = info->display_area;
  if (area.right == 0 && area.bottom == 0) {
    area.right = static_cast<short>(info->ulWidth);
    area.bottom = static_cast<short>(info->ulHeight);
  }
  return is_inside(area, info->ulWidth, info->ulHeight);
}

/// The real engine scales; this one only crops. An odd area may be asked for as the next even size.
bool is_scaling(const CUVIDDECODECREATEINFO& info) {
  const auto matches = [](long area, unsigned long target) {
    return target == static_cast<unsigned long>(area) ||
           target == static_cast<unsigned long>(area + 1) / 2 * 2;
  };
  const auto& area = info.display_area;
  return !matches(area.right - area.left, info.ulTargetWidth) ||
         !matches(area.bottom - area.top, info.ulTargetHeight);
}

CUresult check_create(const CUVIDDECODECREATEINFO& info) {
  if (info.CodecType < 0 || info.CodecType >= cudaVideoCodec_NumCodecs) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const DecoderLimits* limits = find_limits(info.CodecType, info.ChromaFormat,
                                            static_cast<unsigned>(info.bitDepthMinus8) + 8);
  if (!limits) return CUDA_ERROR_NOT_SUPPORTED;
  if (!(limits->output_formats & (1u << info.OutputFormat))) return CUDA_ERROR_INVALID_VALUE;
  if (info.ulNumDecodeSurfaces == 0 || info.ulNumDecodeSurfaces > kMaxDecodeSurfaces ||
      info.ulNumOutputSurfaces > kMaxOutputSurfaces) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Measured: empty sizes are answered like this.
  if (!info.ulWidth || !info.ulHeight || !info.ulTargetWidth || !info.ulTargetHeight) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const auto macroblocks = ((info.ulWidth + 15) / 16) * ((info.ulHeight + 15) / 16);
  if (info.ulWidth > limits->max_width || info.ulHeight > limits->max_height ||
      info.ulWidth < limits->min_width || info.ulHeight < limits->min_height ||
      macroblocks > limits->max_macroblocks) {
    cudaframe_sim_internal_report(
        "cuvidCreateDecoder: %lux%lu is outside %ux%u to %ux%u, %u macroblocks", info.ulWidth,
        info.ulHeight, limits->min_width, limits->min_height, limits->max_width, limits->max_height,
        limits->max_macroblocks);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

/// What one output surface's writer needs; lives until the operation has run.
struct PostProcess {
  PicturePtr picture;  ///< null: only spoil the surface
  SurfaceGeometry geometry;
  CUdeviceptr address;

  static void run(void* user) {
    const auto* self = static_cast<const PostProcess*>(user);
    auto* surface = reinterpret_cast<unsigned char*>(self->address);
    poison_surface(surface, self->geometry);
    if (self->picture) write_surface(*self->picture, self->geometry, surface);
  }
  static void destroy(void* user) { delete static_cast<PostProcess*>(user); }
};

CUresult queue(CUstream stream, const char* call, PostProcess work) {
  const cudaframe_sim_access access = {work.address, work.geometry.size(), 1, 0, 1};
  return cudaframe_sim_internal_enqueue(stream, call, &access, 1, PostProcess::run,
                                        PostProcess::destroy, new PostProcess(std::move(work)),
                                        access.address);
}

}  // namespace

CUresult Decoder::create(const CUVIDDECODECREATEINFO& asked, std::shared_ptr<Decoder>* made) {
  CUVIDDECODECREATEINFO info = asked;
  if (const CUresult result = check_create(info)) return result;
  if (!complete_area(&info)) return CUDA_ERROR_INVALID_VALUE;
  if (is_scaling(info)) {
    cudaframe_sim_internal_report("cuvidCreateDecoder: scaling is not simulated");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  info.ulMaxWidth = std::max(info.ulMaxWidth, info.ulWidth);
  info.ulMaxHeight = std::max(info.ulMaxHeight, info.ulHeight);
  info.ulNumOutputSurfaces = std::max(info.ulNumOutputSurfaces, 1ul);
  std::shared_ptr<Decoder> decoder(new Decoder(info));
  if (const CUresult result = decoder->allocate()) return result;
  *made = std::move(decoder);
  return CUDA_SUCCESS;
}

Decoder::~Decoder() {
  for (const OutputSurface& output : outputs_) {
    if (output.is_mapped) cudaframe_sim_internal_count_object(CUDAFRAME_SIM_MAPPED_SURFACE, -1);
  }
  release_memory();
}

SurfaceGeometry Decoder::geometry() const {
  SurfaceGeometry geometry;
  geometry.format = info_.OutputFormat;
  geometry.width = static_cast<unsigned>(info_.ulTargetWidth);
  geometry.height = static_cast<unsigned>(info_.ulTargetHeight);
  geometry.left = info_.display_area.left;
  geometry.top = info_.display_area.top;
  geometry.pitch = surface_pitch(info_.OutputFormat, geometry.width);
  return geometry;
}

// Pictures live in host memory; what they would take on the device is only booked.
CUresult Decoder::allocate() {
  const size_t sample = info_.bitDepthMinus8 ? 2 : 1;
  const size_t area = info_.ulMaxWidth * info_.ulMaxHeight * sample;
  const size_t picture = info_.ChromaFormat == cudaVideoChromaFormat_444 ? area * 3 : area * 3 / 2;
  const size_t bytes = picture * info_.ulNumDecodeSurfaces;
  if (const CUresult result = cudaframe_sim_internal_reserve(bytes)) return result;
  reserved_bytes_ = bytes;
  pictures_.assign(info_.ulNumDecodeSurfaces, nullptr);
  outputs_.assign(info_.ulNumOutputSurfaces, {});
  for (OutputSurface& output : outputs_) {
    if (const CUresult result = cudaframe_sim_internal_alloc(geometry().size(), &output.address)) {
      return result;  // the destructor gives back what there is
    }
  }
  return CUDA_SUCCESS;
}

void Decoder::release_memory() {
  cudaframe_sim_internal_drain();
  for (const OutputSurface& output : outputs_) {
    if (output.address) cudaframe_sim_internal_free(output.address);
  }
  outputs_.clear();
  cudaframe_sim_internal_unreserve(std::exchange(reserved_bytes_, 0));
}

CUresult Decoder::decode(const CUVIDPICPARAMS& params) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (params.CurrPicIdx < 0 || static_cast<size_t>(params.CurrPicIdx) >= pictures_.size()) {
    cudaframe_sim_internal_report("cuvidDecodePicture: CurrPicIdx %d, but %zu decode surfaces",
                                  params.CurrPicIdx, pictures_.size());
    return CUDA_ERROR_INVALID_VALUE;
  }
  PicturePtr picture = find_picture(params.pBitstreamData, params.nBitstreamDataLen);
  if (!picture) {
    cudaframe_sim_internal_report("cuvidDecodePicture: the bitstream is not this parser's");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (static_cast<unsigned long>(picture->width) > info_.ulWidth + 15 ||
      static_cast<unsigned long>(picture->height) > info_.ulHeight + 15 ||
      !can_write(*picture, info_.OutputFormat)) {
    cudaframe_sim_internal_report("cuvidDecodePicture: a %dx%d picture doesn't fit the decoder",
                                  picture->width, picture->height);
    return CUDA_ERROR_INVALID_VALUE;
  }
  pictures_[static_cast<size_t>(params.CurrPicIdx)] = std::move(picture);
  return CUDA_SUCCESS;
}

CUresult Decoder::status(int index, cuvidDecodeStatus* status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (index < 0 || static_cast<size_t>(index) >= pictures_.size()) return CUDA_ERROR_INVALID_VALUE;
  const PicturePtr& picture = pictures_[static_cast<size_t>(index)];
  *status = !picture              ? cuvidDecodeStatus_Invalid
            : picture->is_damaged ? cuvidDecodeStatus_Error_Concealed
                                  : cuvidDecodeStatus_Success;
  return CUDA_SUCCESS;
}

CUresult Decoder::map(int index, CUstream stream, CUdeviceptr* address, unsigned* pitch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (index < 0 || static_cast<size_t>(index) >= pictures_.size()) return CUDA_ERROR_INVALID_VALUE;
  const PicturePtr picture = pictures_[static_cast<size_t>(index)];
  for (const OutputSurface& output : outputs_) {
    if (output.is_mapped && output.index == index) return CUDA_ERROR_ALREADY_MAPPED;
  }
  // Round robin, so that a surface rests as long as possible.
  OutputSurface* output = nullptr;
  for (size_t i = 0; i < outputs_.size() && !output; ++i) {
    const size_t at = (next_output_ + i) % outputs_.size();
    if (outputs_[at].is_mapped) continue;
    output = &outputs_[at];
    next_output_ = at + 1;
  }
  if (!output) {
    cudaframe_sim_internal_violation("cuvidMapVideoFrame: all %zu output surfaces are mapped",
                                     outputs_.size());
    return CUDA_ERROR_MAP_FAILED;
  }
  // A surface that nothing was decoded into holds nothing in particular: poison.
  const SurfaceGeometry shape = geometry();
  if (const CUresult result =
          queue(stream, "cuvidMapVideoFrame", {picture, shape, output->address})) {
    return result;
  }
  output->is_mapped = true;
  cudaframe_sim_internal_set_mapped(output->address, 1);
  output->stream = stream;
  output->index = index;
  cudaframe_sim_internal_count_object(CUDAFRAME_SIM_MAPPED_SURFACE, 1);
  *address = output->address;
  *pitch = static_cast<unsigned>(shape.pitch);
  return CUDA_SUCCESS;
}

CUresult Decoder::unmap(CUdeviceptr address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto output = std::find_if(outputs_.begin(), outputs_.end(), [address](const auto& o) {
    return o.is_mapped && o.address == address;
  });
  if (output == outputs_.end()) return CUDA_ERROR_NOT_MAPPED;
  output->is_mapped = false;
  cudaframe_sim_internal_set_mapped(address, 0);
  cudaframe_sim_internal_count_object(CUDAFRAME_SIM_MAPPED_SURFACE, -1);
  // In the order of the map's stream: what was queued there still reads the picture, what other
  // streams read later finds poison, on every run.
  return queue(output->stream, "cuvidUnmapVideoFrame", {nullptr, geometry(), address});
}

CUresult Decoder::reconfigure(const CUVIDRECONFIGUREDECODERINFO& asked) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CUVIDDECODECREATEINFO info = info_;
  if (asked.ulWidth > info.ulMaxWidth || asked.ulHeight > info.ulMaxHeight) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (const OutputSurface& output : outputs_) {
    if (output.is_mapped) return CUDA_ERROR_INVALID_VALUE;
  }
  info.ulWidth = asked.ulWidth;
  info.ulHeight = asked.ulHeight;
  info.ulTargetWidth = asked.ulTargetWidth;
  info.ulTargetHeight = asked.ulTargetHeight;
  info.ulNumDecodeSurfaces = asked.ulNumDecodeSurfaces;
  info.display_area = {asked.display_area.left, asked.display_area.top, asked.display_area.right,
                       asked.display_area.bottom};
  if (const CUresult result = check_create(info)) return result;
  if (!complete_area(&info)) return CUDA_ERROR_INVALID_VALUE;
  if (is_scaling(info)) return CUDA_ERROR_NOT_SUPPORTED;
  release_memory();
  info_ = info;
  next_output_ = 0;
  return allocate();
}

}  // namespace cudaframe::sim
