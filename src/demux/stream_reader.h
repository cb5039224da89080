// SPDX-License-Identifier: LGPL-2.1-or-later
// From libavformat's description of a stream to ours. Only for src/demux: needs FFmpeg's headers.
#pragma once

#include "demux/stream_info.h"

struct AVFormatContext;
struct AVStream;

namespace cudaframe::demux {

/// Copies everything; keeps no pointer. Reentrant.
StreamInfo read_stream_info(AVFormatContext* format, AVStream* stream);

}  // namespace cudaframe::demux
