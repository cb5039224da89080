// SPDX-License-Identifier: LGPL-2.1-or-later
// cudapacketdec on a machine without a driver: it exists, and says what is missing.

#include <dlfcn.h>
#include <gst/gst.h>
#include <gtest/gtest.h>

#include <string>

namespace {

TEST(CudaPacketDecWithoutDriverTest, ReadyFailsWithOneErrorThatNamesTheLibrary) {
  if (void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    dlclose(library);
    GTEST_SKIP() << "this machine has a driver";
  }
  GstElement* element = gst_element_factory_make("cudapacketdec", nullptr);
  ASSERT_NE(element, nullptr);
  GstBus* bus = gst_bus_new();
  gst_element_set_bus(element, bus);
  for (int round = 1; round <= 2; ++round) {
    EXPECT_EQ(gst_element_set_state(element, GST_STATE_READY), GST_STATE_CHANGE_FAILURE);
    int errors = 0;
    while (GstMessage* message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR)) {
      GError* error = nullptr;
      gst_message_parse_error(message, &error, nullptr);
      EXPECT_NE(std::string(error->message).find("libcuda.so.1"), std::string::npos)
          << error->message;
      g_error_free(error);
      gst_message_unref(message);
      ++errors;
    }
    EXPECT_EQ(errors, 1);
  }
  gst_element_set_state(element, GST_STATE_NULL);
  gst_element_set_bus(element, nullptr);
  gst_object_unref(bus);
  gst_object_unref(element);
}

}  // namespace
