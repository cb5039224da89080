// SPDX-License-Identifier: LGPL-2.1-or-later
// cudapacketdec: compressed packets to frames in CUDA memory, through NVDEC.
#pragma once

#include <gst/video/gstvideodecoder.h>
#include <gst/video/video.h>

G_BEGIN_DECLS

#define GST_TYPE_CUDA_PACKET_DEC (gst_cuda_packet_dec_get_type())
G_DECLARE_FINAL_TYPE(GstCudaPacketDec, gst_cuda_packet_dec, GST, CUDA_PACKET_DEC, GstVideoDecoder)

GST_ELEMENT_REGISTER_DECLARE(cudapacketdec)

G_END_DECLS
