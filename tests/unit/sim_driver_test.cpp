// SPDX-License-Identifier: LGPL-2.1-or-later
// The simulated libcuda.so.1: exports, contexts, memory, kernels, counts and faults.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "cuda/driver.h"
#include "sim_test_device.h"

namespace {

#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)

// What the loader does: by file name, over LD_LIBRARY_PATH.
TEST(SimExports, EverySymbolThatTheLoaderAsksFor) {
  void* cuda = dlopen("libcuda.so.1", RTLD_NOW);
  void* cuvid = dlopen("libnvcuvid.so.1", RTLD_NOW);
  ASSERT_TRUE(cuda) << dlerror();
  ASSERT_TRUE(cuvid) << dlerror();
#define CHECK_CUDA(name) EXPECT_TRUE(dlsym(cuda, TEXT(name))) << TEXT(name);
  CUDAFRAME_CUDA_SYMBOLS(CHECK_CUDA)
#define CHECK_CUVID(name, type) EXPECT_TRUE(dlsym(cuvid, #name)) << #name;
  CUDAFRAME_CUVID_SYMBOLS(CHECK_CUVID)
  EXPECT_TRUE(dlsym(cuda, "cudaframe_sim_block_stream"));
  EXPECT_FALSE(dlsym(cuda, "_ZN9cudaframe3sim6Device3getEv"));
  Dl_info from = {};
  ASSERT_TRUE(dladdr(dlsym(cuda, "cuInit"), &from));
  EXPECT_TRUE(strstr(from.dli_fname, "tests/sim/libcuda.so.1")) << from.dli_fname;
}

using SimDriver = SimDeviceTest;

TEST_F(SimDriver, DescribesItself) {
  int version = 0, count = 0, major = 0, minor = 0;
  char name[64];
  ASSERT_OK(cuDriverGetVersion(&version));
  ASSERT_OK(cuDeviceGetCount(&count));
  ASSERT_OK(cuDeviceGetName(name, sizeof name, 0));
  ASSERT_OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  ASSERT_OK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
  EXPECT_EQ(version, 13000);
  EXPECT_EQ(count, 1);
  EXPECT_STREQ(name, "NVIDIA H200 (simulated)");
  EXPECT_EQ(major * 10 + minor, 90);
  CUdevice device;
  EXPECT_EQ(cuDeviceGet(&device, 1), CUDA_ERROR_INVALID_DEVICE);
  const char* text = nullptr;
  ASSERT_OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_EQ(cuGetErrorString(CUDA_ERROR_ASSERT, &text), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(SimDriver, ContextStackIsPerThread) {
  std::thread([this] {
    CUcontext current = context_;
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, nullptr);
    CUdeviceptr memory;
    EXPECT_EQ(cuMemAlloc(&memory, 16), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxPopCurrent(&current), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxPushCurrent(nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuCtxPushCurrent(context_), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxPushCurrent(context_), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxPopCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, context_);
    EXPECT_EQ(cuMemAlloc(&memory, 16), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
    // Measured on a real driver: what has a handle needs no current context.
    EXPECT_EQ(cuMemFree(memory), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8Async(memory, 0, 1, nullptr), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
  EXPECT_EQ(live().allocations, 0u);
}

TEST_F(SimDriver, NewMemoryIsNotZeroAndFreedMemoryIsGone) {
  CUdeviceptr memory = 0;
  ASSERT_OK(cuMemAlloc(&memory, 100));
  std::vector<unsigned char> bytes(100);
  ASSERT_OK(cuMemcpyDtoH(bytes.data(), memory, 100));
  EXPECT_EQ(bytes, std::vector<unsigned char>(100, 0xcd));
  EXPECT_EQ(live().allocations, 1u);
  EXPECT_EQ(live().allocation_bytes, 100u);
  unsigned type = 0;
  ASSERT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 99));
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_DEVICE});
  EXPECT_EQ(cuMemFree(memory + 1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuMemFree(memory));
  EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemFree(0));
  EXPECT_EQ(live().allocations, 0u);
}

TEST_F(SimDriver, MemoryIsBounded) {
  size_t before = 0, total = 0, after = 0;
  ASSERT_OK(cuMemGetInfo(&before, &total));
  EXPECT_EQ(total, size_t{4} << 30);
  CUdeviceptr memory = 0, second = 0;
  ASSERT_OK(cuMemAlloc(&memory, 1 << 20));
  ASSERT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(before - after, size_t{1} << 20);
  EXPECT_EQ(cuMemAlloc(&second, before), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc(&second, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc(&second, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuMemFree(memory));
}

TEST_F(SimDriver, IllegalAccessIsSticky) {
  CUdeviceptr small = 0, large = 0;
  ASSERT_OK(cuMemAlloc(&small, 64));
  ASSERT_OK(cuMemAlloc(&large, 256));
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = large;
  copy.dstDevice = small;
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = 32;
  copy.Height = 2;
  ASSERT_OK(cuMemcpy2DAsync(&copy, nullptr));
  copy.Height = 3;
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuMemcpy2DAsync(&copy, nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("cuMemcpy2DAsync writes"),
            std::string::npos);
  CUstream stream;
  EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  // Nothing stays behind, whatever the answer.
  EXPECT_EQ(cuMemFree(small), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuMemFree(large), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(live().allocations, 0u);
  cudaframe_sim_set_device_lost(0);
  EXPECT_OK(cuCtxSynchronize());
}

TEST_F(SimDriver, CopiesRowsBetweenPitches) {
  const size_t pitch = 48;
  CUdeviceptr memory = 0;
  ASSERT_OK(cuMemAlloc(&memory, pitch * 4));
  ASSERT_OK(cuMemsetD2D8Async(memory, pitch, 0, pitch, 4, nullptr));
  std::vector<unsigned char> source(20 * 3);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(i + 1);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = source.data();
  copy.srcPitch = 20;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = memory;
  copy.dstPitch = pitch;
  copy.dstXInBytes = 4;
  copy.dstY = 1;
  copy.WidthInBytes = 20;
  copy.Height = 3;
  ASSERT_OK(cuMemcpy2D(&copy));
  std::vector<unsigned char> expected(pitch * 4), got(pitch * 4);
  for (size_t y = 0; y < 3; ++y) memcpy(&expected[(y + 1) * pitch + 4], &source[y * 20], 20);
  ASSERT_OK(cuMemcpyDtoH(got.data(), memory, got.size()));
  EXPECT_EQ(got, expected);
  copy.WidthInBytes = 21;
  EXPECT_EQ(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.WidthInBytes = 20;
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  EXPECT_EQ(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuMemFree(memory));
}

void add_to_all(const cudaframe_sim_launch* launch) {
  auto* bytes = *static_cast<unsigned char* const*>(launch->params[0]);
  const int amount = *static_cast<const int*>(launch->params[1]);
  for (unsigned i = 0; i < launch->grid_x * launch->block_x; ++i) {
    bytes[i] = static_cast<unsigned char>(bytes[i] + amount);
  }
}

size_t add_accesses(const cudaframe_sim_launch* launch, cudaframe_sim_access* out, size_t room) {
  const auto address = *static_cast<const CUdeviceptr*>(launch->params[0]);
  const uint64_t size = uint64_t{launch->grid_x} * launch->block_x;
  if (room >= 2) {
    out[0] = {address, size, 1, size, 0};
    out[1] = {address, size, 1, size, 1};
  }
  return 2;
}

TEST_F(SimDriver, KernelRunsItsTwinWithTheParametersOfTheLaunch) {
  const size_t sizes[] = {sizeof(CUdeviceptr), sizeof(int)};
  ASSERT_EQ(cudaframe_sim_register_kernel("add_to_all", add_to_all, add_accesses, sizes, 2), 0);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, "any image"));
  EXPECT_EQ(cuModuleGetFunction(&function, module, "no_such"), CUDA_ERROR_NOT_FOUND);
  ASSERT_OK(cuModuleGetFunction(&function, module, "add_to_all"));
  CUdeviceptr memory = 0;
  ASSERT_OK(cuMemAlloc(&memory, 64));
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_EQ(cudaframe_sim_block_stream(stream), 0);
  ASSERT_OK(cuMemsetD8Async(memory, 1, 64, stream));
  int amount = 5;
  void* params[] = {&memory, &amount};
  ASSERT_OK(cuLaunchKernel(function, 4, 1, 1, 16, 1, 1, 0, stream, params, nullptr));
  amount = 100;  // too late for the launch
  EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, stream, params, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cudaframe_sim_unblock_stream(stream), 0);
  std::vector<unsigned char> bytes(64);
  ASSERT_OK(cuMemcpyDtoH(bytes.data(), memory, 64));
  EXPECT_EQ(bytes, std::vector<unsigned char>(64, 6));
  // What the twin says it touches is checked.
  EXPECT_EQ(cuLaunchKernel(function, 5, 1, 1, 16, 1, 1, 0, stream, params, nullptr),
            CUDA_ERROR_ILLEGAL_ADDRESS);
  cudaframe_sim_set_device_lost(0);
  ASSERT_OK(cuModuleUnload(module));
  EXPECT_EQ(cuLaunchKernel(function, 4, 1, 1, 16, 1, 1, 0, stream, params, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
  ASSERT_OK(cuStreamDestroy(stream));
  ASSERT_OK(cuMemFree(memory));
}

TEST_F(SimDriver, CountsCallsByTheNameOfTheApi) {
  cudaframe_sim_reset_counts();
  CUdeviceptr memory = 0;
  ASSERT_OK(cuMemAlloc(&memory, 16));
  ASSERT_OK(cuMemFree(memory));
  ASSERT_OK(cuMemFree(0));
  EXPECT_EQ(cudaframe_sim_call_count("cuMemAlloc"), 1u);
  EXPECT_EQ(cudaframe_sim_call_count("cuMemFree"), 2u);
  EXPECT_EQ(cudaframe_sim_call_count("cuMemGetInfo"), 0u);
  cudaframe_sim_reset_counts();
  EXPECT_EQ(cudaframe_sim_call_count("cuMemAlloc"), 0u);
}

TEST_F(SimDriver, FailsTheCallThatWasAskedFor) {
  CUdeviceptr memory[3] = {};
  cudaframe_sim_fail_call("cuMemAlloc", 2, 0);
  EXPECT_OK(cuMemAlloc(&memory[0], 16));
  EXPECT_EQ(cuMemAlloc(&memory[1], 16), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_OK(cuMemAlloc(&memory[2], 16));
  CUstream stream = nullptr;
  cudaframe_sim_fail_call("cuStreamCreate", 1, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_UNKNOWN);
  cudaframe_sim_fail_call("cuStreamCreate", 1, 0);
  cudaframe_sim_fail_call("cuStreamCreate", 0, 0);
  EXPECT_OK(cuStreamCreate(&stream, 0));
  EXPECT_OK(cuStreamDestroy(stream));
  EXPECT_OK(cuMemFree(memory[0]));
  EXPECT_OK(cuMemFree(memory[2]));
}

// The environment is read once per process: each of these runs in a process of its own.
class SimEnvironment : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void TearDown() override {
    for (const char* name :
         {"CUDAFRAME_SIM", "CUDAFRAME_SIM_COUNTS", "CUDAFRAME_SIM_FAIL", "CUDAFRAME_SIM_MEMORY"}) {
      unsetenv(name);
    }
  }
};

[[noreturn]] void count_and_exit() {
  int version = 0;
  cuInit(0);
  cuDriverGetVersion(&version);
  cuDriverGetVersion(&version);
  CUcontext context;
  cuDevicePrimaryCtxRetain(&context, 0);
  cuDevicePrimaryCtxRelease(0);
  exit(0);
}

TEST_F(SimEnvironment, CountsArePrintedAtTheEnd) {
  setenv("CUDAFRAME_SIM_COUNTS", "1", 1);
  EXPECT_EXIT(count_and_exit(), testing::ExitedWithCode(0),
              "cuDevicePrimaryCtxRelease 1\ncuDevicePrimaryCtxRetain 1\n"
              "cuDriverGetVersion 2\ncuInit 1\n");
}

TEST_F(SimEnvironment, AnUnknownModeIsRefused) {
  setenv("CUDAFRAME_SIM", "sideways", 1);
  EXPECT_EXIT(exit(cuInit(0) == CUDA_ERROR_SYSTEM_NOT_READY ? 0 : 1), testing::ExitedWithCode(0),
              "CUDAFRAME_SIM=sideways is no mode");
}

[[noreturn]] void allocate_and_exit() {
  CUcontext context;
  cuInit(0);
  cuDevicePrimaryCtxRetain(&context, 0);
  cuCtxPushCurrent(context);
  size_t available = 0, total = 0;
  cuMemGetInfo(&available, &total);
  fprintf(stderr, "total %zu;", total);
  for (int i = 0; i < 3; ++i) {
    CUdeviceptr memory;
    fprintf(stderr, " %d", cuMemAlloc(&memory, 1024));
  }
  exit(0);
}

TEST_F(SimEnvironment, MemoryAndFaultsCanBeSet) {
  setenv("CUDAFRAME_SIM_MEMORY", "2048", 1);
  setenv("CUDAFRAME_SIM_FAIL", "cuMemAlloc:2:999", 1);
  EXPECT_EXIT(allocate_and_exit(), testing::ExitedWithCode(0), "total 2048; 0 999 0");
  setenv("CUDAFRAME_SIM_FAIL", "nonsense", 1);
  EXPECT_EXIT(allocate_and_exit(), testing::ExitedWithCode(0), "nonsense.*\ntotal 2048; 0 0 2");
}

}  // namespace
