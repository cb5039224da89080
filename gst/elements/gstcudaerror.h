// SPDX-License-Identifier: LGPL-2.1-or-later
// The one place where a core Status becomes a flow return and a message on the bus.
#pragma once

#include <gst/gst.h>

#include "base/result.h"

/// Posts one element error for `status` unless it is ok, flushing or end_of_stream. `doing` says
/// what the element was at ("opening the device"); the Status goes into the debug details.
void gst_cuda_post_error(GstElement* element, const cudaframe::Status& status, const char* doing);

/// What to return from a chain function; posts nothing.
GstFlowReturn gst_cuda_flow_of(const cudaframe::Status& status);

/// gst_cuda_post_error() and gst_cuda_flow_of() at once.
GstFlowReturn gst_cuda_fail(GstElement* element, const cudaframe::Status& status,
                            const char* doing);

/// Sends the core's log to the debug category `cudaframe-core`. Once, from the plugin's init.
void gst_cuda_install_log_sink();
