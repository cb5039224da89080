// SPDX-License-Identifier: LGPL-2.1-or-later
// main() of the tests that use GStreamer: gst_deinit() makes the leaks tracer report.

#include <gst/gst.h>
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  gst_deinit();
  return result;
}
