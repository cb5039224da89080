// SPDX-License-Identifier: LGPL-2.1-or-later
// What the parser's sequence callback is told.
#pragma once

#include "cuvid_caps.h"
#include "software_decoder.h"

namespace cudaframe::sim {

/// All bytes are set: two of them may be compared with memcmp.
CUVIDEOFORMAT describe_sequence(const CodecInfo& codec, const SoftwareDecoder& decoder,
                                const Picture& picture);

}  // namespace cudaframe::sim
