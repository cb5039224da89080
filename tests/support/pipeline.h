// SPDX-License-Identifier: LGPL-2.1-or-later
// A pipeline from a description, with its bus; stopped and released at the end of its scope.
#pragma once

#include <gst/app/gstappsink.h>
#include <gst/gst.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/gst_helpers.h"

namespace cudaframe::test {

class Pipeline {
 public:
  /// Elements that tests talk to: "source" (gets `location`), "sink" (an appsink), by name.
  explicit Pipeline(const std::string& description, const char* location = nullptr) {
    GError* error = nullptr;
    pipeline_ = gst_parse_launch(description.c_str(), &error);
    if (!pipeline_) {
      ADD_FAILURE() << error->message;
      std::abort();
    }
    g_clear_error(&error);
    bus_ = gst_element_get_bus(pipeline_);
    if (!location) return;
    GstElement* source = element("source");
    g_object_set(source, "location", location, nullptr);
    gst_object_unref(source);
  }
  ~Pipeline() {
    gst_element_set_state(pipeline_, GST_STATE_NULL);
    gst_object_unref(bus_);
    gst_object_unref(pipeline_);
  }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  GstElement* get() const { return pipeline_; }
  GstBus* bus() const { return bus_; }
  /// (transfer full)
  GstElement* element(const char* name) const {
    return gst_bin_get_by_name(GST_BIN(pipeline_), name);
  }
  GstStateChangeReturn set_state(GstState state) { return gst_element_set_state(pipeline_, state); }

  /// (transfer full): an appsink's next sample; null at the end, or when nothing comes any more.
  GstSample* pull(const char* name = "sink") const {
    GstElement* sink = element(name);
    GstSample* sample = gst_app_sink_try_pull_sample(GST_APP_SINK(sink), 30 * GST_SECOND);
    gst_object_unref(sink);
    return sample;
  }
  bool is_at_end() const {
    GstElement* sink = element("sink");
    const bool at_end = gst_app_sink_is_eos(GST_APP_SINK(sink));
    gst_object_unref(sink);
    return at_end;
  }
  /// Takes `count` samples and drops them; how many came.
  int take(int count) const {
    int taken = 0;
    for (; taken < count; ++taken) {
      GstSample* sample = pull();
      if (!sample) break;
      gst_sample_unref(sample);
    }
    return taken;
  }
  /// The texts of all errors that have been posted.
  std::vector<std::string> errors() const { return take_errors(bus_); }
  /// A guint or guint64 of an element's `stats`.
  guint64 stat(const char* name, const char* field) const {
    GstElement* target = element(name);
    const guint64 value = stat_of(target, field);
    gst_object_unref(target);
    return value;
  }

 private:
  GstElement* pipeline_ = nullptr;
  GstBus* bus_ = nullptr;
};

}  // namespace cudaframe::test
