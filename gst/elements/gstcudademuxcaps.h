// SPDX-License-Identifier: LGPL-2.1-or-later
// Containers and codecs that cudademux knows: their names in libavformat and in caps.
#pragma once

#include <gst/gst.h>

#include <string>

#include "demux/stream_info.h"

/// (transfer full): caps of all containers that are read.
GstCaps* gst_cuda_demux_container_caps();

/// The same containers by libavformat's short names, separated by commas.
std::string gst_cuda_demux_container_names();

/// (transfer full): caps of all codecs of this type, without what differs from stream to stream.
GstCaps* gst_cuda_demux_template_caps(cudaframe::demux::MediaType type);

/// (transfer full) (nullable): caps of the stream as the container holds it, codec_data included;
/// NULL where GStreamer has no name for it, or it is data, or a cover picture.
GstCaps* gst_cuda_demux_stream_caps(const cudaframe::demux::StreamInfo& stream);

/// Whether packets begin with their text's length in two bytes, which caps can't say.
bool gst_cuda_demux_has_text_length(const cudaframe::demux::StreamInfo& stream);
