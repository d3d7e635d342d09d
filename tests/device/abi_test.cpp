// Our declarations of the CUDA driver's structures and numbers, compared with NVIDIA's header.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "device/driver_table.hpp"
#include "jfa/runtime.hpp"

namespace jfa::device {
namespace {

template <typename Enum>
constexpr int number(Enum value) {
  return static_cast<int>(value);
}

TEST(Abi, LaunchConfiguration) {
  static_assert(sizeof(LaunchConfiguration) == sizeof(CUlaunchConfig));
  EXPECT_EQ(offsetof(LaunchConfiguration, grid), offsetof(CUlaunchConfig, gridDimX));
  EXPECT_EQ(offsetof(LaunchConfiguration, block), offsetof(CUlaunchConfig, blockDimX));
  EXPECT_EQ(offsetof(LaunchConfiguration, dynamic_shared_bytes),
            offsetof(CUlaunchConfig, sharedMemBytes));
  EXPECT_EQ(offsetof(LaunchConfiguration, stream), offsetof(CUlaunchConfig, hStream));
  EXPECT_EQ(offsetof(LaunchConfiguration, attributes), offsetof(CUlaunchConfig, attrs));
  EXPECT_EQ(offsetof(LaunchConfiguration, attribute_count), offsetof(CUlaunchConfig, numAttrs));
}

TEST(Abi, LaunchAttribute) {
  static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
  EXPECT_EQ(offsetof(LaunchAttribute, value), offsetof(CUlaunchAttribute, value));
  EXPECT_EQ(number(LaunchAttribute::cluster_dimension), CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  EXPECT_EQ(number(LaunchAttribute::programmatic_stream_serialization),
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
}

TEST(Abi, TensorMap) {
  static_assert(sizeof(TensorMapBytes) == sizeof(CUtensorMap));
  static_assert(alignof(TensorMapBytes) >= alignof(CUtensorMap));
  using runtime::TensorElement;
  EXPECT_EQ(number(TensorElement::u8), CU_TENSOR_MAP_DATA_TYPE_UINT8);
  EXPECT_EQ(number(TensorElement::s64), CU_TENSOR_MAP_DATA_TYPE_INT64);
  EXPECT_EQ(number(TensorElement::f16), CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
  EXPECT_EQ(number(TensorElement::f32), CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
  EXPECT_EQ(number(TensorElement::bf16), CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  EXPECT_EQ(number(runtime::TensorSwizzle::bytes128), CU_TENSOR_MAP_SWIZZLE_128B);
  EXPECT_EQ(number(runtime::TensorPromotion::bytes256), CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}

TEST(Abi, Attributes) {
  using D = DeviceAttribute;
  EXPECT_EQ(number(D::shared_bytes_per_block), CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  EXPECT_EQ(number(D::core_clock_khz), CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  EXPECT_EQ(number(D::multiprocessors), CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(number(D::memory_clock_khz), CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  EXPECT_EQ(number(D::memory_bus_bits), CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  EXPECT_EQ(number(D::l2_bytes), CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  EXPECT_EQ(number(D::threads_per_multiprocessor),
            CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  EXPECT_EQ(number(D::compute_major), CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(number(D::compute_minor), CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  EXPECT_EQ(number(D::shared_bytes_per_multiprocessor),
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  EXPECT_EQ(number(D::registers_per_multiprocessor),
            CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  EXPECT_EQ(number(D::shared_bytes_per_block_optin),
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);

  using F = FunctionAttribute;
  EXPECT_EQ(number(F::threads_per_block), CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  EXPECT_EQ(number(F::static_shared_bytes), CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  EXPECT_EQ(number(F::local_bytes), CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  EXPECT_EQ(number(F::registers), CU_FUNC_ATTRIBUTE_NUM_REGS);
  EXPECT_EQ(number(F::dynamic_shared_bytes), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  EXPECT_EQ(number(F::non_portable_cluster), CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
}

// The signatures of the functions that the table takes straight from the driver.
template <typename Ours, typename Theirs>
constexpr bool same_arity_v = false;
template <typename... A, typename... B>
constexpr bool same_arity_v<Status (*)(A...), CUresult (*)(B...)> = sizeof...(A) == sizeof...(B) &&
                                                                    ((sizeof(A) == sizeof(B)) &&
                                                                     ...);

template <auto theirs, typename Ours>
constexpr bool matches(Ours DriverTable::*) {
  return same_arity_v<Ours, decltype(theirs)>;
}

static_assert(matches<&cuInit>(&DriverTable::init));
static_assert(matches<&cuDeviceGetName>(&DriverTable::device_name));
static_assert(matches<&cuDeviceGetAttribute>(&DriverTable::device_attribute));
static_assert(matches<&cuDeviceTotalMem>(&DriverTable::device_memory));
static_assert(matches<&cuDevicePrimaryCtxRetain>(&DriverTable::context_retain));
static_assert(matches<&cuMemAlloc>(&DriverTable::memory_allocate));
static_assert(matches<&cuMemFree>(&DriverTable::memory_free));
static_assert(matches<&cuMemcpyAsync>(&DriverTable::memory_copy));
static_assert(matches<&cuMemsetD8Async>(&DriverTable::memory_fill));
static_assert(matches<&cuMemHostAlloc>(&DriverTable::host_allocate));
static_assert(matches<&cuMemHostRegister>(&DriverTable::host_register));
static_assert(matches<&cuStreamCreate>(&DriverTable::stream_create));
static_assert(matches<&cuEventCreate>(&DriverTable::event_create));
static_assert(matches<&cuEventRecord>(&DriverTable::event_record));
static_assert(matches<&cuEventElapsedTime>(&DriverTable::event_elapsed));
static_assert(matches<&cuModuleLoadData>(&DriverTable::module_load));
static_assert(matches<&cuModuleGetFunction>(&DriverTable::module_function));
static_assert(matches<&cuFuncGetAttribute>(&DriverTable::function_attribute));
static_assert(matches<&cuFuncSetAttribute>(&DriverTable::set_function_attribute));
static_assert(matches<&cuOccupancyMaxActiveBlocksPerMultiprocessor>(&DriverTable::occupancy));
static_assert(matches<&cuLaunchKernelEx>(&DriverTable::launch));
static_assert(matches<&cuTensorMapEncodeTiled>(&DriverTable::encode_tensor_map));

}  // namespace
}  // namespace jfa::device
