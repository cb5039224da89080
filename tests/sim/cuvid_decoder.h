// SPDX-License-Identifier: LGPL-2.1-or-later
// One simulated decoder: decode surfaces that hold pictures, output surfaces that they are copied
// to.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "cuvid_caps.h"
#include "pictures.h"
#include "surface_writer.h"

namespace cudaframe::sim {

/// Thread-safe.
class Decoder {
 public:
  /// The checks that cuvidCreateDecoder makes.
  static CUresult create(const CUVIDDECODECREATEINFO& info, std::shared_ptr<Decoder>* made);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  CUresult decode(const CUVIDPICPARAMS& params);
  CUresult reconfigure(const CUVIDRECONFIGUREDECODERINFO& info);
  CUresult status(int index, cuvidDecodeStatus* status);

  /// Hands out an output surface and queues the copy of the picture, as it is now, on `stream`.
  CUresult map(int index, CUstream stream, CUdeviceptr* address, unsigned* pitch);
  /// Work on the map's stream may still be queued: the surface is spoilt behind it.
  CUresult unmap(CUdeviceptr address);

 private:
  struct OutputSurface {
    CUdeviceptr address = 0;
    CUstream stream = nullptr;
    int index = -1;  ///< of the picture that was mapped
    bool is_mapped = false;
  };

  explicit Decoder(const CUVIDDECODECREATEINFO& info) : info_(info) {}
  CUresult allocate();
  void release_memory();
  SurfaceGeometry geometry() const;

  std::mutex mutex_;
  CUVIDDECODECREATEINFO info_;
  std::vector<PicturePtr> pictures_;
  std::vector<OutputSurface> outputs_;
  size_t next_output_ = 0;
  size_t reserved_bytes_ = 0;
};

}  // namespace cudaframe::sim
