// SPDX-License-Identifier: LGPL-2.1-or-later
// NVCUVID's decoder and parser entry points: handles in front of Decoder and Parser.
#include <unordered_map>

#include "cuvid_decoder.h"
#include "cuvid_parser.h"
#include "entry_points.h"

using cudaframe::sim::Decoder;
using cudaframe::sim::Parser;

namespace {

/// Handles that are never given out twice, so that a stale one is always noticed.
template <typename Object>
class HandleTable {
 public:
  HandleTable(const char* noun, cudaframe_sim_object kind) : noun_(noun), kind_(kind) {}

  void* add(std::shared_ptr<Object> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    next_ += 16;
    objects_[next_] = std::move(object);
    cudaframe_sim_internal_count_object(kind_, 1);
    return reinterpret_cast<void*>(next_);
  }

  std::shared_ptr<Object> find(void* handle, const char* call) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (found != objects_.end()) return found->second;
    cudaframe_sim_internal_violation("%s: %p is no %s, or was destroyed", call, handle, noun_);
    return nullptr;
  }

  std::shared_ptr<Object> remove(void* handle, const char* call) {
    auto object = find(handle, call);
    if (!object) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    objects_.erase(reinterpret_cast<uintptr_t>(handle));
    cudaframe_sim_internal_count_object(kind_, -1);
    return object;
  }

 private:
  const char* const noun_;
  const cudaframe_sim_object kind_;
  std::mutex mutex_;
  uintptr_t next_ = 0x20000;
  std::unordered_map<uintptr_t, std::shared_ptr<Object>> objects_;
};

HandleTable<Decoder>& decoders() {
  static auto* const table = new HandleTable<Decoder>("decoder", CUDAFRAME_SIM_DECODER);
  return *table;
}

HandleTable<Parser>& parsers() {
  static auto* const table = new HandleTable<Parser>("parser", CUDAFRAME_SIM_PARSER);
  return *table;
}

}  // namespace

CUDAFRAME_SIM_ENTRY_POINT CUresult cuvidCreateDecoder(CUvideodecoder* handle,
                                                      CUVIDDECODECREATEINFO* info) {
  CUDAFRAME_SIM_ENTER(true);
  if (!handle || !info) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Decoder> decoder;
  if (const CUresult result = Decoder::create(*info, &decoder)) return result;
  *handle = decoders().add(std::move(decoder));
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_ENTRY_POINT CUresult cuvidDestroyDecoder(CUvideodecoder handle) {
  CUDAFRAME_SIM_ENTER(false);
  return decoders().remove(handle, "cuvidDestroyDecoder") ? CUDA_SUCCESS
                                                          : CUDA_ERROR_INVALID_HANDLE;
}

CUDAFRAME_SIM_ENTRY_POINT CUresult cuvidDecodePicture(CUvideodecoder handle,
                                                      CUVIDPICPARAMS* params) {
  CUDAFRAME_SIM_ENTER(true);
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  const auto decoder = decoders().find(handle, "cuvidDecodePicture");
  return decoder ? decoder->decode(*params) : CUDA_ERROR_INVALID_HANDLE;
}

CUDAFRAME_SIM_ENTRY_POINT CUresult cuvidGetDecodeStatus(CUvideodecoder handle, int index,
                                                        CUVIDGETDECODESTATUS* status) {
  CUDAFRAME_SIM_ENTER(true);
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  const auto decoder = decoders().find(handle, "cuvidGetDecodeStatus");
  return decoder ? decoder->status(index, &status->decodeStatus) : CUDA_ERROR_INVALID_HANDLE;
}

CUDAFRAME_SIM_ENTRY_POINT CUresult cuvidReconfigureDecoder(CUvideodecoder handle,
                                                           CUVIDRECONFIGUREDECODERINFO* info) {
  CUDAFRAME_SIM_ENTER(true);
  if (!info) return CUDA_ERROR_INVALID_VALUE;
  const auto decoder = decoders().find(handle, "cuvidReconfigureDecoder");
  return decoder ? decoder->reconfigure(*info) : CUDA_ERROR_INVALID_HANDLE;
}

CUDAFRAME_SIM_ENTRY_POINT CUresult cuvidMapVideoFrame64(CUvideodecoder handle, int index,
                                                        unsigned long long* address,
                                                        unsigned* pitch, CUVIDPROCPARAMS* params) {
  CUDAFRAME_SIM_ENTER(true);
  if (!address || !pitch || !params) return CUDA_ERROR_INVALID_VALUE;
  const auto decoder = decoders().find(handle, "cuvidMapVideoFrame");
  if (!decoder) return CUDA_ERROR_INVALID_HANDLE;
  CUdeviceptr mapped = 0;
  const CUresult result = decoder->map(index, params->output_stream, &mapped, pitch);
  if (result == CUDA_SUCCESS) *address = mapped;
  return result;
}

CUDAFRAME_SIM_ENTRY_POINT CUresult cuvidUnmapVideoFrame64(CUvideodecoder handle,
                                                          unsigned long long address) {
  CUDAFRAME_SIM_ENTER(false);
  const auto decoder = decoders().find(handle, "cuvidUnmapVideoFrame");
  return decoder ? decoder->unmap(address) : CUDA_ERROR_INVALID_HANDLE;
}

CUDAFRAME_SIM_ENTRY_POINT CUresult cuvidCreateVideoParser(CUvideoparser* handle,
                                                          CUVIDPARSERPARAMS* params) {
  CUDAFRAME_SIM_ENTER(false);
  if (!handle || !params) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Parser> parser;
  if (const CUresult result = Parser::create(*params, &parser)) return result;
  *handle = parsers().add(std::move(parser));
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_ENTRY_POINT CUresult cuvidParseVideoData(CUvideoparser handle,
                                                       CUVIDSOURCEDATAPACKET* packet) {
  CUDAFRAME_SIM_ENTER(false);
  if (!packet) return CUDA_ERROR_INVALID_VALUE;
  const auto parser = parsers().find(handle, "cuvidParseVideoData");
  return parser ? parser->parse(*packet) : CUDA_ERROR_INVALID_HANDLE;
}

CUDAFRAME_SIM_ENTRY_POINT CUresult cuvidDestroyVideoParser(CUvideoparser handle) {
  CUDAFRAME_SIM_ENTER(false);
  return parsers().remove(handle, "cuvidDestroyVideoParser") ? CUDA_SUCCESS
                                                             : CUDA_ERROR_INVALID_HANDLE;
}
