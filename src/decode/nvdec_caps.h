// SPDX-License-Identifier: LGPL-2.1-or-later
// What the device's decoder can do, asked once per kind of stream and process.
#pragma once

#include "base/media_types.h"
#include "base/result.h"
#include "cuda/context.h"

namespace cudaframe::decode {

/// A kind of stream, as far as the device's limits depend on it.
struct StreamKind {
  Codec codec = Codec::h264;
  cudaVideoChromaFormat chroma = cudaVideoChromaFormat_420;
  int bit_depth = 8;
  bool operator==(const StreamKind&) const = default;
};

/// For messages: "H.264 4:2:0 8-bit".
std::string describe(const StreamKind& kind);

/// The device's answer, kept for the life of the process. Makes the context current by itself; the
/// caller holds no ContextScope of another device. Thread-safe. An answer "not supported" is a
/// value, not an error.
Result<CUVIDDECODECAPS> decoder_caps(const cuda::Context& context, const StreamKind& kind);

/// Ok when the device decodes such a stream at this coded size into `surface`; else one
/// not_supported that names the kind, the size, and the limit that is exceeded. Thread-safe.
Status check_supported(const cuda::Context& context, const StreamKind& kind, int coded_width,
                       int coded_height, cudaVideoSurfaceFormat surface);

}  // namespace cudaframe::decode
