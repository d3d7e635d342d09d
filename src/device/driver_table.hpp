// The seam between the library and a device: the functions of a driver that we use, with the
// signatures, structures and numbers of the public CUDA driver API. The CUDA driver fills the table
// with its own functions, the PTX machine with imitations. No CUDA header is needed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "jfa/device.hpp"
#include "jfa/jit.hpp"

namespace jfa::device {

using Status = int;  // CUresult
inline constexpr Status kSuccess = 0;

using DevicePointer = std::uint64_t;
using Handle = void*;  // of a context, stream, event, module or function

// CUdevice_attribute
enum class DeviceAttribute : int {
  shared_bytes_per_block = 8,
  core_clock_khz = 13,
  multiprocessors = 16,
  memory_clock_khz = 36,
  memory_bus_bits = 37,
  l2_bytes = 38,
  threads_per_multiprocessor = 39,
  compute_major = 75,
  compute_minor = 76,
  shared_bytes_per_multiprocessor = 81,
  registers_per_multiprocessor = 82,
  shared_bytes_per_block_optin = 97,
};

// CUfunction_attribute
enum class FunctionAttribute : int {
  threads_per_block = 0,
  static_shared_bytes = 1,
  local_bytes = 3,
  registers = 4,
  dynamic_shared_bytes = 8,  // the most that a launch may ask for
  non_portable_cluster = 14,
};

// CUlaunchAttribute
struct LaunchAttribute {
  enum Id : int { cluster_dimension = 4, programmatic_stream_serialization = 6 };

  Id id{};
  std::array<char, 4> padding{};
  union {
    std::array<char, 64> bytes{};
    struct {
      unsigned x, y, z;
    } cluster;
    int allowed;
  } value;
};

// CUlaunchConfig
struct LaunchConfiguration {
  std::array<unsigned, 3> grid{1, 1, 1};
  std::array<unsigned, 3> block{1, 1, 1};
  unsigned dynamic_shared_bytes = 0;
  Handle stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

struct alignas(128) TensorMapBytes {  // CUtensorMap
  std::array<std::uint64_t, 16> words{};
};

struct DriverTable {
  // Devices
  Status (*init)(unsigned flags) = nullptr;
  Status (*driver_version)(int* version) = nullptr;  // 13000 is 13.0
  Status (*device_count)(int* count) = nullptr;
  Status (*device_get)(int* device, int ordinal) = nullptr;
  Status (*device_name)(char* name, int bytes, int device) = nullptr;
  Status (*device_attribute)(int* value, DeviceAttribute attribute, int device) = nullptr;
  Status (*device_memory)(std::size_t* bytes, int device) = nullptr;
  Status (*error_name)(Status status, const char** name) = nullptr;
  Status (*error_string)(Status status, const char** text) = nullptr;

  // Contexts
  Status (*context_retain)(Handle* context, int device) = nullptr;
  Status (*context_get_current)(Handle* context) = nullptr;
  Status (*context_set_current)(Handle context) = nullptr;

  // Memory
  Status (*memory_allocate)(DevicePointer* memory, std::size_t bytes) = nullptr;
  Status (*memory_free)(DevicePointer memory) = nullptr;
  Status (*memory_copy)(DevicePointer to, DevicePointer from, std::size_t bytes,
                        Handle stream) = nullptr;  // any direction
  Status (*memory_fill)(DevicePointer memory, unsigned char value, std::size_t bytes,
                        Handle stream) = nullptr;
  Status (*host_allocate)(void** memory, std::size_t bytes, unsigned flags) = nullptr;
  Status (*host_free)(void* memory) = nullptr;
  Status (*host_register)(void* memory, std::size_t bytes, unsigned flags) = nullptr;
  Status (*host_unregister)(void* memory) = nullptr;

  // Streams and events
  Status (*stream_create)(Handle* stream, unsigned flags) = nullptr;
  Status (*stream_destroy)(Handle stream) = nullptr;
  Status (*stream_synchronize)(Handle stream) = nullptr;
  Status (*stream_id)(Handle stream, unsigned long long* id) = nullptr;  // never given twice
  // status: 1 while a graph captures the stream; `id` is then that capture's. The rest may be null.
  Status (*stream_capture)(Handle stream, int* status, std::uint64_t* id, Handle* graph,
                           const Handle** dependencies, std::size_t* count) = nullptr;
  Status (*event_create)(Handle* event, unsigned flags) = nullptr;
  Status (*event_destroy)(Handle event) = nullptr;
  Status (*event_record)(Handle event, Handle stream) = nullptr;
  Status (*event_synchronize)(Handle event) = nullptr;
  Status (*event_elapsed)(float* milliseconds, Handle start, Handle end) = nullptr;

  // Code
  Status (*module_load)(Handle* module, const void* image) = nullptr;  // cubin, or PTX with a zero
  Status (*module_unload)(Handle module) = nullptr;
  Status (*module_function)(Handle* function, Handle module, const char* name) = nullptr;
  Status (*function_attribute)(int* value, FunctionAttribute attribute, Handle function) = nullptr;
  Status (*set_function_attribute)(Handle function, FunctionAttribute attribute,
                                   int value) = nullptr;
  Status (*occupancy)(int* blocks, Handle function, int threads,
                      std::size_t dynamic_shared_bytes) = nullptr;
  Status (*launch)(const LaunchConfiguration* configuration, Handle function, void** arguments,
                   void** extra) = nullptr;
  Status (*encode_tensor_map)(TensorMapBytes* map, int type, std::uint32_t rank, void* memory,
                              const std::uint64_t* sizes, const std::uint64_t* strides,
                              const std::uint32_t* box, const std::uint32_t* element_strides,
                              int interleave, int swizzle, int l2_promotion,
                              int out_of_bounds_fill) = nullptr;

  // Ours, not the driver's: more about the last error of this thread; null: nothing to add.
  const char* (*error_detail)() = nullptr;
  jit::ImageKind image = jit::ImageKind::cubin;  // what module_load takes
};

// The CUDA driver, loaded at the first call. Throws DeviceError when it is missing, too old, or
// finds no GPU.
const DriverTable& cuda_driver();

// The PTX machine; devices 0, 1, … are emulated_architectures(). Throws DeviceError in a build
// without it.
const DriverTable& emulated_driver();
std::vector<std::string> emulated_architectures();  // empty in a build without it

// Table and ordinal of a device. Throws as device_info.
struct DriverDevice {
  const DriverTable* driver;
  int device;
};
DriverDevice find_driver(const Device& device);

// Throws DeviceError "<what>: <name> (<number>): <text>" unless `status` is success.
void check(const DriverTable& driver, Status status, std::string_view what);
[[noreturn]] void fail(const DriverTable& driver, Status status, std::string_view what);

}  // namespace jfa::device
