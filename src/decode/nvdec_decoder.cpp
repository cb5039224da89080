// SPDX-License-Identifier: LGPL-2.1-or-later
#include "decode/nvdec_decoder.h"

#include <utility>

#include "base/log.h"
#include "decode/codec_info.h"

namespace cudaframe::decode {
namespace {

// One is mapped at a time; the second lets the post-processing of a picture start while the copy
// of the one before is still queued.
constexpr unsigned kOutputSurfaces = 2;

CUVIDDECODECREATEINFO make_create_info(const DecoderSpec& spec) {
  CUVIDDECODECREATEINFO info{};
  info.CodecType = codec_info(spec.kind.codec).nvdec;
  info.ChromaFormat = spec.kind.chroma;
  info.bitDepthMinus8 = static_cast<unsigned>(spec.kind.bit_depth - 8);
  info.OutputFormat = spec.surface;
  info.DeinterlaceMode = cudaVideoDeinterlaceMode_Weave;
  info.ulCreationFlags = cudaVideoCreate_PreferCUVID;
  info.ulNumDecodeSurfaces = static_cast<unsigned>(spec.decode_surfaces);
  info.ulNumOutputSurfaces = kOutputSurfaces;
  info.ulWidth = info.ulMaxWidth = static_cast<unsigned>(spec.coded_width);
  info.ulHeight = info.ulMaxHeight = static_cast<unsigned>(spec.coded_height);
  info.display_area.left = static_cast<short>(spec.display_area.left);
  info.display_area.top = static_cast<short>(spec.display_area.top);
  info.display_area.right = static_cast<short>(spec.display_area.right);
  info.display_area.bottom = static_cast<short>(spec.display_area.bottom);
  // Neither scaled nor padded: what is shown, and nothing else.
  info.ulTargetWidth = static_cast<unsigned>(spec.display_area.width());
  info.ulTargetHeight = static_cast<unsigned>(spec.display_area.height());
  return info;
}

// NVDEC's surfaces have one pitch, and chroma behind an even number of luma rows.
Result<memory::FrameLayout> surface_layout(const DecoderSpec& spec, std::size_t pitch) {
  const int width = spec.display_area.width();
  const int height = spec.display_area.height();
  const std::size_t luma_rows = (static_cast<std::size_t>(height) + 1) & ~std::size_t{1};
  const std::size_t offsets[] = {0, pitch * luma_rows};
  const std::size_t pitches[] = {pitch, pitch};
  return memory::make_layout(PixelFormat::nv12, width, height, offsets, pitches,
                             pitch * luma_rows * 3 / 2);
}

}  // namespace

Result<std::unique_ptr<NvdecDecoder>> NvdecDecoder::create(cuda::Context& context,
                                                           const DecoderSpec& spec) {
  Result<const cuda::CuvidDriver*> cuvid = cuda::CuvidDriver::load();
  if (!cuvid) return cuvid.status();
  cuda::ContextScope scope(context);
  CUDAFRAME_TRY(scope.status());
  std::unique_ptr<NvdecDecoder> decoder(new NvdecDecoder(context, **cuvid, spec));
  CUVIDDECODECREATEINFO info = make_create_info(spec);
  const Status status = context.driver().check(
      (*cuvid)->cuvidCreateDecoder(&decoder->handle_, &info), "cuvidCreateDecoder");
  if (!status.ok()) {
    decoder->handle_ = nullptr;
    return status.with_context("can't make a decoder for " + describe(spec.kind) + " at " +
                               std::to_string(spec.coded_width) + "x" +
                               std::to_string(spec.coded_height));
  }
  return decoder;
}

NvdecDecoder::~NvdecDecoder() {
  if (!handle_) return;
  cuda::ContextScope scope(context_);
  const Status status =
      scope.status().ok()
          ? context_.driver().check(cuvid_.cuvidDestroyDecoder(handle_), "cuvidDestroyDecoder")
          : scope.status();
  if (!status.ok()) log(LogLevel::warning, "decode", "%s", status.dump().c_str());
}

Status NvdecDecoder::decode(CUVIDPICPARAMS& picture) {
  const int index = picture.CurrPicIdx;
  if (index < 0 || index >= spec_.decode_surfaces) {
    return Status(StatusCode::internal, "the parser names surface " + std::to_string(index) +
                                            " of " + std::to_string(spec_.decode_surfaces));
  }
  const Status status =
      context_.driver().check(cuvid_.cuvidDecodePicture(handle_, &picture), "cuvidDecodePicture");
  given_[static_cast<std::size_t>(index)] = status.ok();
  // The parameters come from the bitstream: a decoder that refuses them has met damaged data.
  if (status.code() == StatusCode::internal || status.code() == StatusCode::invalid_argument) {
    return Status(StatusCode::bad_data, status.message(), status.native_error());
  }
  return status;
}

bool NvdecDecoder::has(int picture_index) const {
  return picture_index >= 0 && picture_index < spec_.decode_surfaces &&
         given_[static_cast<std::size_t>(picture_index)];
}

Result<MappedPicture> NvdecDecoder::map(const CUVIDPARSERDISPINFO& picture,
                                        const cuda::Stream& stream) {
  CUVIDPROCPARAMS params{};
  params.progressive_frame = picture.progressive_frame;
  params.second_field = picture.repeat_first_field + 1;
  params.top_field_first = picture.top_field_first;
  params.unpaired_field = picture.repeat_first_field < 0;
  // NVCUVID's own name for the legacy default stream is null; it predates CU_STREAM_LEGACY.
  params.output_stream = stream.handle() == CU_STREAM_LEGACY ? nullptr : stream.handle();
  unsigned long long address = 0;
  unsigned pitch = 0;
  CUDAFRAME_TRY(context_.driver().check(
      cuvid_.cuvidMapVideoFrame64(handle_, picture.picture_index, &address, &pitch, &params),
      "cuvidMapVideoFrame"));
  Result<memory::FrameLayout> layout = surface_layout(spec_, pitch);
  // From here on the surface is unmapped whatever happens.
  MappedPicture mapped(*this, address, layout ? *layout : memory::FrameLayout{});
  if (!layout) return layout.status();
  return mapped;
}

bool NvdecDecoder::is_corrupted(int picture_index) const {
  CUVIDGETDECODESTATUS status{};
  if (cuvid_.cuvidGetDecodeStatus(handle_, picture_index, &status) != CUDA_SUCCESS) return false;
  return status.decodeStatus == cuvidDecodeStatus_Error ||
         status.decodeStatus == cuvidDecodeStatus_Error_Concealed;
}

MappedPicture::MappedPicture(MappedPicture&& other) noexcept
    : decoder_(std::exchange(other.decoder_, nullptr)),
      address_(other.address_),
      layout_(other.layout_) {}

MappedPicture::~MappedPicture() {
  const Status status = unmap();
  if (!status.ok()) log(LogLevel::warning, "decode", "%s", status.dump().c_str());
}

Status MappedPicture::unmap() {
  NvdecDecoder* decoder = std::exchange(decoder_, nullptr);
  if (!decoder) return {};
  return decoder->context_.driver().check(
      decoder->cuvid_.cuvidUnmapVideoFrame64(decoder->handle_, address_), "cuvidUnmapVideoFrame");
}

}  // namespace cudaframe::decode
