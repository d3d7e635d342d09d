// The table filled by the CUDA driver. cuGetProcAddress hands out each function in the version that
// the number below asks for, so that names need no suffix like _v2.
#include <dlfcn.h>
#include <fmt/format.h>

#include <mutex>
#include <optional>

#include "device/driver_table.hpp"
#include "jfa/error.hpp"

namespace jfa::device {
namespace {

constexpr int kApiVersion = 12000;  // tensor maps came with CUDA 12.0
constexpr const char* kLibrary = "libcuda.so.1";
constexpr const char* kOtherDevices = "Without a GPU use --device cpu or emulated:sm_90a";

using GetProcAddress = Status (*)(const char* name, void** function, int version,
                                  std::uint64_t flags, int* found);

template <typename Function>
void load(GetProcAddress get, Function& function, const char* name) {
  void* address = nullptr;
  int found = 0;
  if (get(name, &address, kApiVersion, 0, &found) != kSuccess || address == nullptr) {
    throw DeviceError(
        fmt::format("the CUDA driver ({}) has no {}: it is older than CUDA 12.0; "
                    "install NVIDIA driver 525 or newer",
                    kLibrary, name));
  }
  function = reinterpret_cast<Function>(address);
}

DriverTable load_table() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // never closed
  if (library == nullptr) {
    const char* reason = dlerror();
    throw DeviceError(
        fmt::format("there is no CUDA driver on this machine ({}). Install the "
                    "NVIDIA driver, or run the container with its GPUs. {}",
                    reason != nullptr ? reason : kLibrary, kOtherDevices));
  }
  const auto get =
      reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));  // CUDA 12.0
  if (get == nullptr) {
    throw DeviceError(
        fmt::format("the CUDA driver ({}) is older than CUDA 12.0; install NVIDIA "
                    "driver 525 or newer",
                    kLibrary));
  }
  DriverTable table;
  load(get, table.init, "cuInit");
  load(get, table.driver_version, "cuDriverGetVersion");
  load(get, table.device_count, "cuDeviceGetCount");
  load(get, table.device_get, "cuDeviceGet");
  load(get, table.device_name, "cuDeviceGetName");
  load(get, table.device_attribute, "cuDeviceGetAttribute");
  load(get, table.device_memory, "cuDeviceTotalMem");
  load(get, table.error_name, "cuGetErrorName");
  load(get, table.error_string, "cuGetErrorString");
  load(get, table.context_retain, "cuDevicePrimaryCtxRetain");
  load(get, table.context_get_current, "cuCtxGetCurrent");
  load(get, table.context_set_current, "cuCtxSetCurrent");
  load(get, table.memory_allocate, "cuMemAlloc");
  load(get, table.memory_free, "cuMemFree");
  load(get, table.memory_copy, "cuMemcpyAsync");
  load(get, table.memory_fill, "cuMemsetD8Async");
  load(get, table.host_allocate, "cuMemHostAlloc");
  load(get, table.host_free, "cuMemFreeHost");
  load(get, table.host_register, "cuMemHostRegister");
  load(get, table.host_unregister, "cuMemHostUnregister");
  load(get, table.stream_create, "cuStreamCreate");
  load(get, table.stream_destroy, "cuStreamDestroy");
  load(get, table.stream_synchronize, "cuStreamSynchronize");
  load(get, table.stream_id, "cuStreamGetId");
  load(get, table.stream_capture, "cuStreamGetCaptureInfo");
  load(get, table.event_create, "cuEventCreate");
  load(get, table.event_destroy, "cuEventDestroy");
  load(get, table.event_record, "cuEventRecord");
  load(get, table.event_synchronize, "cuEventSynchronize");
  load(get, table.event_elapsed, "cuEventElapsedTime");
  load(get, table.module_load, "cuModuleLoadData");
  load(get, table.module_unload, "cuModuleUnload");
  load(get, table.module_function, "cuModuleGetFunction");
  load(get, table.function_attribute, "cuFuncGetAttribute");
  load(get, table.set_function_attribute, "cuFuncSetAttribute");
  load(get, table.occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  load(get, table.launch, "cuLaunchKernelEx");
  load(get, table.encode_tensor_map, "cuTensorMapEncodeTiled");
  table.error_detail = [] { return static_cast<const char*>(nullptr); };
  table.image = jit::ImageKind::cubin;

  if (const Status status = table.init(0); status != kSuccess) {
    fail(table, status, fmt::format("the CUDA driver finds no usable GPU. {}", kOtherDevices));
  }
  return table;
}

}  // namespace

const DriverTable& cuda_driver() {
  static std::mutex mutex;
  static std::optional<DriverTable> table;  // set once loading has succeeded
  const std::lock_guard lock(mutex);
  if (!table) {
    table = load_table();
  }
  return *table;
}

}  // namespace jfa::device
