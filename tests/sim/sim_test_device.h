// SPDX-License-Identifier: LGPL-2.1-or-later
// A gtest fixture for tests that are linked to the simulated driver: a current context, and nothing
// left behind.
#pragma once

#include <cuda.h>

#include <gtest/gtest.h>

#include "cudaframe_sim.h"

#define ASSERT_OK(call) ASSERT_EQ((call), CUDA_SUCCESS)
#define EXPECT_OK(call) EXPECT_EQ((call), CUDA_SUCCESS)

class SimDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(cuInit(0));
    ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, 0));
    ASSERT_OK(cuCtxPushCurrent(context_));
    const cudaframe_sim_live now = live();
    ASSERT_EQ(now.allocations + now.pinned_allocations + now.streams + now.events, 0u);
  }

  void TearDown() override {
    const cudaframe_sim_live now = live();
    EXPECT_EQ(now.allocations, 0u);
    EXPECT_EQ(now.pinned_allocations, 0u);
    EXPECT_EQ(now.streams, 0u);
    EXPECT_EQ(now.events, 0u);
    EXPECT_EQ(now.modules, 0u);
    EXPECT_EQ(now.decoders, 0u);
    EXPECT_EQ(now.parsers, 0u);
    EXPECT_EQ(now.mapped_surfaces, 0u);
    EXPECT_OK(cuCtxPopCurrent(nullptr));
    EXPECT_OK(cuDevicePrimaryCtxRelease(0));
  }

  static cudaframe_sim_live live() {
    cudaframe_sim_live now = {};
    cudaframe_sim_get_live(&now);
    return now;
  }

  CUcontext context_ = nullptr;
};
