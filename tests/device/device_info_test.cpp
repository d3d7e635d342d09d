#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/driver_table.hpp"
#include "jfa/device.hpp"
#include "jfa/error.hpp"
#include "jfa/runtime.hpp"

namespace jfa {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

bool has_gpu() {
  return cuda_status().starts_with("CUDA driver ");
}

TEST(DeviceInfo, CpuRunsNoKernels) {
  EXPECT_THAT([] { device_info(parse_device("cpu")); },
              ThrowsMessage<Unsupported>(HasSubstr("emulated:sm_90a")));
  EXPECT_THAT([] { runtime::open(parse_device("cpu")); },
              ThrowsMessage<Unsupported>(HasSubstr("device cpu runs no kernels")));
}

TEST(DeviceInfo, MissingDriverSaysWhatToDo) {
  if (has_gpu()) {
    GTEST_SKIP() << cuda_status();
  }
  EXPECT_THAT([] { runtime::open(parse_device("cuda:0")); },
              ThrowsMessage<DeviceError>(HasSubstr("--device cpu")));
  EXPECT_THAT(cuda_status(), AnyOf(HasSubstr("no CUDA driver"), HasSubstr("finds no usable GPU")));
}

TEST(DeviceInfo, GpuThatDoesNotExist) {
  if (!has_gpu()) {
    GTEST_SKIP() << cuda_status();
  }
  EXPECT_THAT([] { device_info(parse_device("cuda:99")); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("cuda:99"), HasSubstr("GPU"))));
}

TEST(DeviceInfo, UnknownEmulatedArchitecture) {
  if (device::emulated_architectures().empty()) {
    EXPECT_THAT([] { device_info(parse_device("emulated:sm_90a")); },
                ThrowsMessage<DeviceError>(HasSubstr("JFA_BUILD_EMULATOR")));
  } else {
    EXPECT_THAT([] { device_info(parse_device("emulated:sm_50")); },
                ThrowsMessage<Unsupported>(HasSubstr("sm_90a")));
  }
}

TEST(DeviceInfo, ListedDevicesAreDescribed) {
  for (const DeviceInfo& info : list_devices()) {
    EXPECT_FALSE(info.name.empty());
    EXPECT_THAT(info.architecture, StartsWith("sm_"));
    EXPECT_GT(info.multiprocessors, 0);
    EXPECT_GT(info.memory_bytes, 0);
    EXPECT_GE(info.shared_bytes_per_block, 48 * 1024);
    EXPECT_GT(info.shared_bytes_per_multiprocessor, info.shared_bytes_per_block);
    EXPECT_EQ(device_info(info.device).name, info.name);
  }
}

}  // namespace
}  // namespace jfa
