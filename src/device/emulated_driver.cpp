// The table filled by the PTX machine. Addresses on the device are addresses of the host. Every
// call is done when it returns, so streams only have to exist and events only read the clock.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "device/driver_table.hpp"
#include "device/emulated_gpu.hpp"
#include "jfa/error.hpp"
#include "ptxemu/tensor_map.hpp"

namespace jfa::device {
namespace {

// CUresult values that the machine gives.
enum : Status {
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kInvalidPtx = 218,
  kNotFound = 500,
  kLaunchFailed = 719,
  kNotSupported = 801,
};

struct StatusText {
  Status status;
  const char* name;
  const char* text;
};

constexpr std::array kStatusTexts{
    StatusText{kSuccess, "CUDA_SUCCESS", "no error"},
    StatusText{kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    StatusText{kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    StatusText{kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    StatusText{kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "no device is current"},
    StatusText{kInvalidPtx, "CUDA_ERROR_INVALID_PTX", "malformed PTX"},
    StatusText{kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    StatusText{kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "the kernel failed or broke a rule"},
    StatusText{kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};

const StatusText* find_text(Status status) {
  const auto* const found = std::ranges::find(kStatusTexts, status, &StatusText::status);
  return found != kStatusTexts.end() ? found : nullptr;
}

thread_local EmulatedGpu* current_gpu = nullptr;
thread_local std::string last_detail;

Status error(Status status, std::string detail) {
  last_detail = std::move(detail);
  return status;
}

Status status_of(ptxemu::ErrorKind kind) {
  switch (kind) {
    case ptxemu::ErrorKind::parse:
      return kInvalidPtx;
    case ptxemu::ErrorKind::unsupported:
      return kNotSupported;
    case ptxemu::ErrorKind::invalid_argument:
      return kInvalidValue;
    case ptxemu::ErrorKind::not_found:
      return kNotFound;
    case ptxemu::ErrorKind::out_of_memory:
      return kOutOfMemory;
  }
  return kInvalidValue;
}

// Runs `body`, which returns a Status; what it throws becomes one.
template <typename Body>
Status guarded(const Body& body) {
  last_detail.clear();
  try {
    return body();
  } catch (const ptxemu::Error& caught) {
    return error(status_of(caught.kind()), caught.what());
  } catch (const std::bad_alloc&) {
    return error(kOutOfMemory, "the host has no memory left");
  } catch (const std::exception& caught) {
    return error(kInvalidValue, caught.what());
  }
}

// The same on the thread's current GPU, which nobody else uses meanwhile.
template <typename Body>
Status on_gpu(const Body& body) {
  return guarded([&]() -> Status {
    if (current_gpu == nullptr) {
      return kInvalidContext;
    }
    const std::lock_guard lock(current_gpu->mutex());
    return body(*current_gpu);
  });
}

EmulatedGpu* gpu_at(int device) {
  auto& gpus = emulated_gpus();
  return device >= 0 && static_cast<std::size_t>(device) < gpus.size()
             ? gpus[static_cast<std::size_t>(device)].get()
             : nullptr;
}

// ---- Devices and contexts: a context is the GPU itself ----

Status init(unsigned) {
  return guarded([] {
    emulated_gpus();
    return kSuccess;
  });
}

Status driver_version(int* version) {
  *version = 13000;
  return kSuccess;
}

Status device_count(int* count) {
  *count = static_cast<int>(emulated_gpus().size());
  return kSuccess;
}

Status device_get(int* device, int ordinal) {
  *device = ordinal;
  return gpu_at(ordinal) != nullptr ? kSuccess : kInvalidDevice;
}

Status device_name(char* name, int bytes, int device) {
  const EmulatedGpu* gpu = gpu_at(device);
  if (gpu == nullptr || bytes < 1) {
    return kInvalidDevice;
  }
  std::snprintf(name, static_cast<std::size_t>(bytes), "%s", gpu->architecture().like);
  return kSuccess;
}

Status device_attribute(int* value, DeviceAttribute attribute, int device) {
  EmulatedGpu* gpu = gpu_at(device);
  if (gpu == nullptr) {
    return kInvalidDevice;
  }
  const Architecture& architecture = gpu->architecture();
  switch (attribute) {
    case DeviceAttribute::shared_bytes_per_block:
      *value = kDefaultDynamicSharedBytes;
      return kSuccess;
    case DeviceAttribute::core_clock_khz:
    case DeviceAttribute::memory_clock_khz:
    case DeviceAttribute::memory_bus_bits:
      *value = 0;  // it has no clock
      return kSuccess;
    case DeviceAttribute::multiprocessors:
      *value = static_cast<int>(gpu->machine().options().multiprocessors);
      return kSuccess;
    case DeviceAttribute::l2_bytes:
      *value = architecture.l2_bytes;
      return kSuccess;
    case DeviceAttribute::threads_per_multiprocessor:
      *value = kThreadsPerMultiprocessor;
      return kSuccess;
    case DeviceAttribute::compute_major:
      *value = architecture.compute_major;
      return kSuccess;
    case DeviceAttribute::compute_minor:
      *value = architecture.compute_minor;
      return kSuccess;
    case DeviceAttribute::shared_bytes_per_multiprocessor:
      *value = architecture.shared_bytes_per_multiprocessor;
      return kSuccess;
    case DeviceAttribute::registers_per_multiprocessor:
      *value = kRegistersPerMultiprocessor;
      return kSuccess;
    case DeviceAttribute::shared_bytes_per_block_optin:
      *value = architecture.shared_bytes_per_block;
      return kSuccess;
  }
  return kInvalidValue;
}

Status device_memory(std::size_t* bytes, int device) {
  EmulatedGpu* gpu = gpu_at(device);
  if (gpu == nullptr) {
    return kInvalidDevice;
  }
  *bytes = gpu->machine().options().memory_limit_bytes;
  return kSuccess;
}

Status error_name(Status status, const char** name) {
  const StatusText* found = find_text(status);
  *name = found != nullptr ? found->name : nullptr;
  return found != nullptr ? kSuccess : kInvalidValue;
}

Status error_string(Status status, const char** text) {
  const StatusText* found = find_text(status);
  *text = found != nullptr ? found->text : nullptr;
  return found != nullptr ? kSuccess : kInvalidValue;
}

const char* error_detail() {
  return last_detail.empty() ? nullptr : last_detail.c_str();
}

Status context_retain(Handle* context, int device) {
  *context = gpu_at(device);
  return *context != nullptr ? kSuccess : kInvalidDevice;
}

Status context_get_current(Handle* context) {
  *context = current_gpu;
  return kSuccess;
}

Status context_set_current(Handle context) {
  current_gpu = static_cast<EmulatedGpu*>(context);
  return kSuccess;
}

// ---- Memory ----

Status memory_allocate(DevicePointer* memory, std::size_t bytes) {
  return on_gpu([&](EmulatedGpu& gpu) {
    *memory = gpu.allocate(bytes);
    return kSuccess;
  });
}

Status memory_free(DevicePointer memory) {
  return on_gpu([&](EmulatedGpu& gpu) {
    gpu.free(memory);
    return kSuccess;
  });
}

Status memory_copy(DevicePointer to, DevicePointer from, std::size_t bytes, Handle) {
  return on_gpu([&](EmulatedGpu& gpu) {
    gpu.copy(to, from, bytes);
    return kSuccess;
  });
}

Status memory_fill(DevicePointer memory, unsigned char value, std::size_t bytes, Handle) {
  return on_gpu([&](EmulatedGpu& gpu) {
    gpu.machine().fill(memory, value, bytes);
    return kSuccess;
  });
}

Status host_register(void* memory, std::size_t bytes, unsigned) {
  return on_gpu([&](EmulatedGpu& gpu) {
    gpu.machine().register_host_memory(memory, bytes);
    return kSuccess;
  });
}

Status host_unregister(void* memory) {
  return on_gpu([&](EmulatedGpu& gpu) {
    gpu.machine().unregister_host_memory(memory);
    return kSuccess;
  });
}

constexpr std::size_t kHostAlignment = 256;

Status host_allocate(void** memory, std::size_t bytes, unsigned flags) {
  const std::size_t rounded = (bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
  *memory = std::aligned_alloc(kHostAlignment, rounded);
  return *memory != nullptr ? host_register(*memory, bytes, flags) : kOutOfMemory;
}

Status host_free(void* memory) {
  const Status status = host_unregister(memory);
  if (status == kSuccess) {
    std::free(memory);
  }
  return status;
}

// ---- Streams and events ----

struct EmulatedStream {};

Status stream_create(Handle* stream, unsigned) {
  *stream = new EmulatedStream;
  return kSuccess;
}

Status stream_destroy(Handle stream) {
  delete static_cast<EmulatedStream*>(stream);
  return kSuccess;
}

Status stream_synchronize(Handle) {
  return kSuccess;
}

// Streams are made once and their memory may be used again, their work is then long done.
Status stream_id(Handle stream, unsigned long long* id) {
  *id = reinterpret_cast<std::uintptr_t>(stream);
  return kSuccess;
}

Status stream_capture(Handle, int* status, std::uint64_t*, Handle*, const Handle**, std::size_t*) {
  *status = 0;  // there are no graphs
  return kSuccess;
}

Status event_create(Handle* event, unsigned) {
  *event = new EmulatedEvent;
  return kSuccess;
}

Status event_destroy(Handle event) {
  delete static_cast<EmulatedEvent*>(event);
  return kSuccess;
}

Status event_record(Handle event, Handle) {
  static_cast<EmulatedEvent*>(event)->time = std::chrono::steady_clock::now();
  return kSuccess;
}

Status event_synchronize(Handle) {
  return kSuccess;
}

Status event_elapsed(float* milliseconds, Handle start, Handle end) {
  const auto& from = static_cast<EmulatedEvent*>(start)->time;
  const auto& to = static_cast<EmulatedEvent*>(end)->time;
  if (!from || !to) {
    return error(kInvalidValue, "the event was never recorded");
  }
  *milliseconds = std::chrono::duration<float, std::milli>(*to - *from).count();
  return kSuccess;
}

// ---- Code ----

Status module_load(Handle* module, const void* image) {
  return on_gpu([&](EmulatedGpu& gpu) {
    *module = new EmulatedModule{
        &gpu, gpu.machine().load(static_cast<const char*>(image), "<kernel>"), {}};
    return kSuccess;
  });
}

Status module_unload(Handle module) {
  delete static_cast<EmulatedModule*>(module);
  return kSuccess;
}

Status module_function(Handle* function, Handle module, const char* name) {
  return guarded([&] {
    auto* const owner = static_cast<EmulatedModule*>(module);
    const ptxemu::KernelInfo& kernel = owner->module.kernel(name);
    const int limit = kDefaultDynamicSharedBytes - static_cast<int>(kernel.static_shared_bytes);
    *function =
        &owner->functions.try_emplace(name, EmulatedFunction{owner, name, limit}).first->second;
    return kSuccess;
  });
}

const ptxemu::KernelInfo& info(const EmulatedFunction& function) {
  return function.module->module.kernel(function.name);
}

Status function_attribute(int* value, FunctionAttribute attribute, Handle function) {
  return guarded([&]() -> Status {
    const EmulatedFunction& of = *static_cast<EmulatedFunction*>(function);
    switch (attribute) {
      case FunctionAttribute::threads_per_block:
        *value = info(of).maximum_block ? static_cast<int>(info(of).maximum_block->count()) : 1024;
        return kSuccess;
      case FunctionAttribute::static_shared_bytes:
        *value = static_cast<int>(info(of).static_shared_bytes);
        return kSuccess;
      case FunctionAttribute::local_bytes:
        *value = static_cast<int>(info(of).local_bytes);
        return kSuccess;
      case FunctionAttribute::dynamic_shared_bytes:
        *value = of.dynamic_shared_limit;
        return kSuccess;
      case FunctionAttribute::non_portable_cluster:
        *value = of.non_portable_cluster ? 1 : 0;
        return kSuccess;
      case FunctionAttribute::registers:
        return error(kNotSupported, "PTX has no registers; compile a cubin to know them");
    }
    return kInvalidValue;
  });
}

Status set_function_attribute(Handle function, FunctionAttribute attribute, int value) {
  return guarded([&]() -> Status {
    EmulatedFunction& of = *static_cast<EmulatedFunction*>(function);
    if (attribute == FunctionAttribute::non_portable_cluster) {
      of.non_portable_cluster = value != 0;
      return kSuccess;
    }
    if (attribute != FunctionAttribute::dynamic_shared_bytes) {
      return kInvalidValue;
    }
    const int most = of.module->gpu->architecture().shared_bytes_per_block -
                     static_cast<int>(info(of).static_shared_bytes);
    if (value < 0 || value > most) {
      return error(kInvalidValue,
                   fmt::format("{} bytes of dynamic shared memory; a block may have {} besides "
                               "{} static ones",
                               value, most, info(of).static_shared_bytes));
    }
    of.dynamic_shared_limit = value;
    return kSuccess;
  });
}

Status occupancy(int* blocks, Handle function, int threads, std::size_t dynamic_shared_bytes) {
  return guarded([&]() -> Status {
    const EmulatedFunction& of = *static_cast<EmulatedFunction*>(function);
    if (threads < 1 || threads > 1024) {
      return error(kInvalidValue, fmt::format("a block of {} threads", threads));
    }
    const int shared = static_cast<int>(info(of).static_shared_bytes + dynamic_shared_bytes) +
                       kReservedSharedBytes;
    *blocks = std::min({kBlocksPerMultiprocessor, kThreadsPerMultiprocessor / threads,
                        of.module->gpu->architecture().shared_bytes_per_multiprocessor / shared});
    return kSuccess;
  });
}

// The rules that the hardware's driver checks ahead of a launch.
Status check_launch(const EmulatedFunction& function, const ptxemu::LaunchConfig& config) {
  if (static_cast<int>(config.dynamic_shared_bytes) > function.dynamic_shared_limit) {
    return error(kInvalidValue,
                 fmt::format("{} bytes of dynamic shared memory, but the function's limit is {}",
                             config.dynamic_shared_bytes, function.dynamic_shared_limit));
  }
  const std::uint64_t cluster = config.cluster.count();
  const std::uint64_t largest = function.non_portable_cluster ? 16 : 8;
  if (cluster > largest) {
    return error(kInvalidValue,
                 fmt::format("a cluster of {} blocks; at most {}", cluster, largest));
  }
  return kSuccess;
}

Status launch(const LaunchConfiguration* configuration, Handle function, void** arguments,
              void** extra) {
  return on_gpu([&](EmulatedGpu& gpu) -> Status {
    const EmulatedFunction& of = *static_cast<EmulatedFunction*>(function);
    if (extra != nullptr) {
      return error(kNotSupported, "arguments are taken one by one only");
    }
    ptxemu::LaunchConfig config;
    const auto& [gx, gy, gz] = configuration->grid;
    const auto& [bx, by, bz] = configuration->block;
    config.grid = {gx, gy, gz};
    config.block = {bx, by, bz};
    config.dynamic_shared_bytes = configuration->dynamic_shared_bytes;
    for (unsigned i = 0; i < configuration->attribute_count; ++i) {
      const LaunchAttribute& attribute = configuration->attributes[i];
      if (attribute.id == LaunchAttribute::cluster_dimension) {
        config.cluster = {attribute.value.cluster.x, attribute.value.cluster.y,
                          attribute.value.cluster.z};
      }
    }
    if (const Status status = check_launch(of, config); status != kSuccess) {
      return status;
    }
    const ptxemu::LaunchResult result = gpu.machine().launch(
        of.module->module, of.name, config, {arguments, info(of).parameters.size()});
    std::fwrite(result.printed.data(), 1, result.printed.size(), stdout);
    if (result.clean()) {
      return kSuccess;
    }
    std::string reports;
    for (const ptxemu::Report& report : result.reports) {
      reports.append(reports.empty() ? "" : "\n").append(ptxemu::to_string(report));
    }
    return error(kLaunchFailed, std::move(reports));
  });
}

Status encode_tensor_map(TensorMapBytes* map, int type, std::uint32_t rank, void* memory,
                         const std::uint64_t* sizes, const std::uint64_t* strides,
                         const std::uint32_t* box, const std::uint32_t* element_strides,
                         int interleave, int swizzle, int l2_promotion, int out_of_bounds_fill) {
  return guarded([&]() -> Status {
    if (rank < 1 || rank > ptxemu::tma::kMaxRank) {
      return error(kInvalidValue, fmt::format("rank {}; expected 1 to 5", rank));
    }
    ptxemu::tma::TensorMap of;
    of.type = static_cast<ptxemu::tma::DataType>(type);
    of.rank = rank;
    of.address = reinterpret_cast<std::uint64_t>(memory);
    of.stride[0] = ptxemu::tma::element_bytes(of.type);
    for (std::uint32_t i = 0; i < rank; ++i) {
      of.size[i] = sizes[i];
      of.box[i] = box[i];
      of.element_stride[i] = element_strides[i];
      if (i > 0) {
        of.stride[i] = strides[i - 1];
      }
    }
    of.interleave = static_cast<ptxemu::tma::Interleave>(interleave);
    of.swizzle = static_cast<ptxemu::tma::Swizzle>(swizzle);
    of.l2_promotion = static_cast<ptxemu::tma::L2Promotion>(l2_promotion);
    of.fill = static_cast<ptxemu::tma::OutOfBoundsFill>(out_of_bounds_fill);
    map->words = ptxemu::tma::encode(of);
    return kSuccess;
  });
}

}  // namespace

const DriverTable& emulated_driver() {
  emulated_gpus();  // bad options are an error of the first call
  static const DriverTable table{
      .init = init,
      .driver_version = driver_version,
      .device_count = device_count,
      .device_get = device_get,
      .device_name = device_name,
      .device_attribute = device_attribute,
      .device_memory = device_memory,
      .error_name = error_name,
      .error_string = error_string,
      .context_retain = context_retain,
      .context_get_current = context_get_current,
      .context_set_current = context_set_current,
      .memory_allocate = memory_allocate,
      .memory_free = memory_free,
      .memory_copy = memory_copy,
      .memory_fill = memory_fill,
      .host_allocate = host_allocate,
      .host_free = host_free,
      .host_register = host_register,
      .host_unregister = host_unregister,
      .stream_create = stream_create,
      .stream_destroy = stream_destroy,
      .stream_synchronize = stream_synchronize,
      .stream_id = stream_id,
      .stream_capture = stream_capture,
      .event_create = event_create,
      .event_destroy = event_destroy,
      .event_record = event_record,
      .event_synchronize = event_synchronize,
      .event_elapsed = event_elapsed,
      .module_load = module_load,
      .module_unload = module_unload,
      .module_function = module_function,
      .function_attribute = function_attribute,
      .set_function_attribute = set_function_attribute,
      .occupancy = occupancy,
      .launch = launch,
      .encode_tensor_map = encode_tensor_map,
      .error_detail = error_detail,
      .image = jit::ImageKind::ptx,
  };
  return table;
}

std::vector<std::string> emulated_architectures() {
  std::vector<std::string> names;
  for (const auto& gpu : emulated_gpus()) {
    names.emplace_back(gpu->architecture().name);
  }
  return names;
}

}  // namespace jfa::device
