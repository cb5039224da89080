// SPDX-License-Identifier: LGPL-2.1-or-later
#include "decode/nvdec_caps.h"

#include <string>
#include <vector>

#include "base/mutex.h"
#include "decode/codec_info.h"

namespace cudaframe::decode {
namespace {

struct CacheEntry {
  int device;
  StreamKind kind;
  CUVIDDECODECAPS caps;
};

struct Cache {
  Mutex mutex;
  std::vector<CacheEntry> entries GUARDED_BY(mutex);
};

Cache& cache() {
  static auto* const instance = new Cache;  // never destroyed: streams may run at process exit
  return *instance;
}

const char* chroma_name(cudaVideoChromaFormat chroma) {
  switch (chroma) {
    case cudaVideoChromaFormat_Monochrome:
      return "4:0:0";
    case cudaVideoChromaFormat_420:
      return "4:2:0";
    case cudaVideoChromaFormat_422:
      return "4:2:2";
    case cudaVideoChromaFormat_444:
      return "4:4:4";
  }
  return "unknown chroma";
}

std::string size_text(unsigned width, unsigned height) {
  return std::to_string(width) + "x" + std::to_string(height);
}

Result<CUVIDDECODECAPS> ask_device(const cuda::Context& context, const StreamKind& kind) {
  Result<const cuda::CuvidDriver*> cuvid = cuda::CuvidDriver::load();
  if (!cuvid) return cuvid.status();
  cuda::ContextScope scope(context);
  CUDAFRAME_TRY(scope.status());
  CUVIDDECODECAPS caps{};
  caps.eCodecType = codec_info(kind.codec).nvdec;
  caps.eChromaFormat = kind.chroma;
  caps.nBitDepthMinus8 = static_cast<unsigned>(kind.bit_depth - 8);
  CUDAFRAME_TRY(
      context.driver().check((*cuvid)->cuvidGetDecoderCaps(&caps), "cuvidGetDecoderCaps"));
  return caps;
}

}  // namespace

std::string describe(const StreamKind& kind) {
  return std::string(codec_info(kind.codec).name) + " " + chroma_name(kind.chroma) + " " +
         std::to_string(kind.bit_depth) + "-bit";
}

Result<CUVIDDECODECAPS> decoder_caps(const cuda::Context& context, const StreamKind& kind) {
  if (kind.bit_depth < 8) {
    return Status(StatusCode::invalid_argument, "no decoder works below 8 bits");
  }
  MutexLock lock(cache().mutex);
  for (const CacheEntry& entry : cache().entries) {
    if (entry.device == context.ordinal() && entry.kind == kind) return entry.caps;
  }
  Result<CUVIDDECODECAPS> caps = ask_device(context, kind);
  if (caps) cache().entries.push_back({context.ordinal(), kind, *caps});
  return caps;
}

Status check_supported(const cuda::Context& context, const StreamKind& kind, int coded_width,
                       int coded_height, cudaVideoSurfaceFormat surface) {
  Result<CUVIDDECODECAPS> asked = decoder_caps(context, kind);
  if (!asked) return asked.status();
  const CUVIDDECODECAPS& caps = *asked;
  const std::string& device = context.device_name();
  if (!caps.bIsSupported) {
    return Status(StatusCode::not_supported, device + " does not decode " + describe(kind));
  }
  if (!(caps.nOutputFormatMask & (1U << surface))) {
    return Status(StatusCode::not_supported,
                  device + " has no surface of the needed format for " + describe(kind));
  }
  const auto width = static_cast<unsigned>(coded_width);
  const auto height = static_cast<unsigned>(coded_height);
  const std::string what = describe(kind) + " at a coded size of " + size_text(width, height);
  if (width < caps.nMinWidth || height < caps.nMinHeight) {
    return Status(StatusCode::not_supported, device + " does not decode " + what +
                                                 ": the least it takes is " +
                                                 size_text(caps.nMinWidth, caps.nMinHeight));
  }
  if (width > caps.nMaxWidth || height > caps.nMaxHeight) {
    return Status(StatusCode::not_supported, device + " does not decode " + what +
                                                 ": the most it takes is " +
                                                 size_text(caps.nMaxWidth, caps.nMaxHeight));
  }
  const unsigned long macroblocks = static_cast<unsigned long>(width) * height / 256;
  if (macroblocks > caps.nMaxMBCount) {
    return Status(StatusCode::not_supported,
                  device + " does not decode " + what + ": that is " + std::to_string(macroblocks) +
                      " macroblocks and the most it takes is " + std::to_string(caps.nMaxMBCount));
  }
  return {};
}

}  // namespace cudaframe::decode
