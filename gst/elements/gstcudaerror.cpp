// SPDX-License-Identifier: LGPL-2.1-or-later
#include "elements/gstcudaerror.h"

#include "base/log.h"

using cudaframe::LogLevel;
using cudaframe::Status;
using cudaframe::StatusCode;

namespace {

struct ErrorKind {
  GQuark domain;
  gint code;
};

ErrorKind kind_of(StatusCode code) {
  switch (code) {
    case StatusCode::not_supported:
      return {GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE};
    case StatusCode::bad_data:
      return {GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE};
    case StatusCode::out_of_memory:
      return {GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NO_SPACE_LEFT};
    case StatusCode::device_lost:
      return {GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_FAILED};
    default:
      return {GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_FAILED};
  }
}

void write_to_gst(LogLevel level, const char* component, const char* message) {
  static GstDebugCategory* const category =
      _gst_debug_category_new("cudaframe-core", 0, "CUDA frames: the core below the elements");
  const GstDebugLevel gst_level = level == LogLevel::warning ? GST_LEVEL_WARNING
                                  : level == LogLevel::debug ? GST_LEVEL_DEBUG
                                                             : GST_LEVEL_TRACE;
  GST_CAT_LEVEL_LOG(category, gst_level, nullptr, "%s: %s", component, message);
}

}  // namespace

void gst_cuda_post_error(GstElement* element, const Status& status, const char* doing) {
  if (status.ok() || status.code() == StatusCode::flushing ||
      status.code() == StatusCode::end_of_stream) {
    return;
  }
  const ErrorKind kind = kind_of(status.code());
  gst_element_message_full(
      element, GST_MESSAGE_ERROR, kind.domain, kind.code, g_strdup(status.message().c_str()),
      g_strdup_printf("%s: %s", doing, status.dump().c_str()), __FILE__, __func__, __LINE__);
}

GstFlowReturn gst_cuda_flow_of(const Status& status) {
  switch (status.code()) {
    case StatusCode::ok:
      return GST_FLOW_OK;
    case StatusCode::flushing:
      return GST_FLOW_FLUSHING;
    case StatusCode::end_of_stream:
      return GST_FLOW_EOS;
    default:
      return GST_FLOW_ERROR;
  }
}

GstFlowReturn gst_cuda_fail(GstElement* element, const Status& status, const char* doing) {
  gst_cuda_post_error(element, status, doing);
  return gst_cuda_flow_of(status);
}

void gst_cuda_install_log_sink() {
  cudaframe::set_log_sink(write_to_gst);
}
