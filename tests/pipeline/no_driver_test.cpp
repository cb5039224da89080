// SPDX-License-Identifier: LGPL-2.1-or-later
// A machine, or a container, without the NVIDIA driver's libraries: everything that needs none
// works, and what needs one says which library is missing, at once.

#include <dlfcn.h>
#include <gst/gst.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/pipeline.h"

namespace {

using cudaframe::test::Pipeline;

constexpr const char* kElements[] = {"cudademux", "cudapacketdec", "cudacolorconvert"};

class NoDriverTest : public testing::Test {
 protected:
  void SetUp() override {
    if (void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
      dlclose(library);
      GTEST_SKIP() << "this machine has a driver";
    }
  }
  static const char* clip() { return std::getenv("CUDAFRAME_TEST_CLIP"); }
};

TEST_F(NoDriverTest, PluginLoadsWithAllElements) {
  GstPlugin* plugin = gst_registry_find_plugin(gst_registry_get(), "cudaframe");
  ASSERT_NE(plugin, nullptr);
  EXPECT_FALSE(GST_OBJECT_FLAG_IS_SET(plugin, GST_PLUGIN_FLAG_BLACKLISTED));
  GstPlugin* loaded = gst_plugin_load(plugin);
  EXPECT_NE(loaded, nullptr);
  gst_clear_object(&loaded);
  gst_object_unref(plugin);
  for (const char* name : kElements) {
    GstElement* element = gst_element_factory_make(name, nullptr);
    ASSERT_NE(element, nullptr) << name;
    EXPECT_EQ(gst_plugin_feature_get_rank(GST_PLUGIN_FEATURE(gst_element_get_factory(element))),
              static_cast<guint>(GST_RANK_NONE))
        << name;
    gst_object_unref(element);
  }
}

TEST_F(NoDriverTest, InspectionPagesAreComplete) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "gst-inspect-1.0 can't load a plugin that needs a sanitizer";
#endif
  for (const char* name : kElements) {
    const char* command[] = {"gst-inspect-1.0", name, nullptr};
    gchar* page = nullptr;
    gint status = -1;
    ASSERT_TRUE(g_spawn_sync(nullptr, const_cast<gchar**>(command), nullptr, G_SPAWN_SEARCH_PATH,
                             nullptr, nullptr, &page, nullptr, &status, nullptr));
    EXPECT_EQ(status, 0) << name;
    for (const char* section : {"Factory Details", "Pad Templates", "Element Properties"}) {
      EXPECT_NE(std::string(page).find(section), std::string::npos) << name << ": " << section;
    }
    g_free(page);
  }
}

TEST_F(NoDriverTest, DemuxerWorksAlone) {
  Pipeline pipeline("filesrc name=source ! cudademux ! appsink name=sink sync=false", clip());
  pipeline.set_state(GST_STATE_PLAYING);
  EXPECT_EQ(pipeline.take(1000), 60);
  EXPECT_TRUE(pipeline.is_at_end());
  EXPECT_TRUE(pipeline.errors().empty());
}

TEST_F(NoDriverTest, WholePipelineFailsAtOnceAndNamesTheLibrary) {
  Pipeline pipeline(
      "filesrc name=source ! cudademux ! cudapacketdec ! cudacolorconvert ! "
      "video/x-raw,format=RGB ! fakesink",
      clip());
  EXPECT_EQ(pipeline.set_state(GST_STATE_PLAYING), GST_STATE_CHANGE_FAILURE);
  const std::vector<std::string> errors = pipeline.errors();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].find("libcuda.so.1"), std::string::npos) << errors[0];
}

}  // namespace
