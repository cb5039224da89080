// SPDX-License-Identifier: LGPL-2.1-or-later
// What tests ask elements and buses again and again.
#pragma once

#include <gst/gst.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cudaframe::test {

/// A guint or guint64 of a `stats` structure.
inline guint64 stat_of(const GstStructure* stats, const char* name) {
  guint64 value = 0;
  guint small = 0;
  if (gst_structure_get_uint(stats, name, &small)) return small;
  EXPECT_TRUE(gst_structure_get_uint64(stats, name, &value)) << name;
  return value;
}

/// The same of an element's `stats` property.
inline guint64 stat_of(GstElement* element, const char* name) {
  GstStructure* stats = nullptr;
  g_object_get(element, "stats", &stats, nullptr);
  const guint64 value = stat_of(stats, name);
  gst_structure_free(stats);
  return value;
}

/// The texts of all errors that are on the bus now, which they leave.
inline std::vector<std::string> take_errors(GstBus* bus) {
  std::vector<std::string> texts;
  while (GstMessage* message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR)) {
    GError* error = nullptr;
    gst_message_parse_error(message, &error, nullptr);
    texts.emplace_back(error->message);
    g_error_free(error);
    gst_message_unref(message);
  }
  return texts;
}

}  // namespace cudaframe::test
