// SPDX-License-Identifier: LGPL-2.1-or-later
// One hardware decoder: made for one kind and size of stream, decodes pictures and maps them.
#pragma once

#include <memory>
#include <vector>

#include "base/media_types.h"
#include "base/result.h"
#include "cuda/stream.h"
#include "decode/nvdec_caps.h"
#include "memory/frame_layout.h"

namespace cudaframe::decode {

/// Everything that a decoder is made from. Two streams with equal specs can use one decoder.
struct DecoderSpec {
  StreamKind kind;
  int coded_width = 0;
  int coded_height = 0;
  Rect display_area;  ///< The decoder crops to it.
  cudaVideoSurfaceFormat surface = cudaVideoSurfaceFormat_NV12;
  int decode_surfaces = 0;
  bool operator==(const DecoderSpec&) const = default;
};

class MappedPicture;

/// Thread-bound. Calls that touch the device need its context current (cuda::ContextScope), but
/// for construction and destruction, which make it current by themselves.
class NvdecDecoder {
 public:
  /// Takes 40 ms and is serialised across the process by the driver.
  static Result<std::unique_ptr<NvdecDecoder>> create(cuda::Context& context,
                                                      const DecoderSpec& spec);
  /// No picture is mapped, and what reads their surfaces is done. Takes up to 250 ms.
  ~NvdecDecoder();
  NvdecDecoder(const NvdecDecoder&) = delete;
  NvdecDecoder& operator=(const NvdecDecoder&) = delete;

  const DecoderSpec& spec() const noexcept { return spec_; }
  cuda::Context& context() const noexcept { return context_; }

  /// For another stream: from here on it has() nothing.
  void forget_pictures() { given_.assign(given_.size(), false); }

  /// Queues the picture on the decoding engine; blocks while the engine's queue is full. bad_data
  /// when the decoder refuses this picture.
  Status decode(CUVIDPICPARAMS& picture);

  /// Whether this decoder, not one before it, has been given the picture with that index.
  bool has(int picture_index) const;

  /// Blocks the host until the picture is decoded. Stream: the surface may be read on `stream`, and
  /// there only, as soon as this returns; reads that are queued there before unmap() are safe.
  Result<MappedPicture> map(const CUVIDPARSERDISPINFO& picture, const cuda::Stream& stream);

  /// Whether the picture was damaged, whether or not the decoder concealed it. After map().
  bool is_corrupted(int picture_index) const;

 private:
  friend class MappedPicture;
  NvdecDecoder(cuda::Context& context, const cuda::CuvidDriver& cuvid, const DecoderSpec& spec)
      : context_(context), cuvid_(cuvid), spec_(spec), given_(spec.decode_surfaces, false) {}

  cuda::Context& context_;
  const cuda::CuvidDriver& cuvid_;
  const DecoderSpec spec_;
  CUvideodecoder handle_ = nullptr;
  std::vector<bool> given_;
};

/// A decoded picture's output surface while it is mapped. Unmapped by the destructor at the latest.
class MappedPicture {
 public:
  MappedPicture(NvdecDecoder& decoder, CUdeviceptr address, const memory::FrameLayout& layout)
      : decoder_(&decoder), address_(address), layout_(layout) {}
  MappedPicture(MappedPicture&& other) noexcept;
  MappedPicture& operator=(MappedPicture&&) = delete;
  ~MappedPicture();

  CUdeviceptr address() const noexcept { return address_; }
  const memory::FrameLayout& layout() const noexcept { return layout_; }

  /// Returns the surface at once; work queued on the stream of map() still sees the picture.
  Status unmap();

 private:
  NvdecDecoder* decoder_;
  CUdeviceptr address_;
  memory::FrameLayout layout_;
};

}  // namespace cudaframe::decode
