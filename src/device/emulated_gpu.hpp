// The PTX machine as the driver table sees it: devices, their memory, modules and functions.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptxemu/device.hpp"

namespace jfa::device {

// What the hardware of an architecture has; sizes in bytes.
struct Architecture {
  const char* name;  // "sm_90a"
  const char* like;  // "emulated H200"
  int compute_major;
  int compute_minor;
  int shared_bytes_per_block;
  int shared_bytes_per_multiprocessor;
  int l2_bytes;
};

inline constexpr int kReservedSharedBytes = 1024;         // of each block, by the system
inline constexpr int kDefaultDynamicSharedBytes = 49152;  // without asking for more
inline constexpr int kRegistersPerMultiprocessor = 65536;
inline constexpr int kThreadsPerMultiprocessor = 2048;
inline constexpr int kBlocksPerMultiprocessor = 32;

// What handles of the table point to.
struct EmulatedEvent {
  std::optional<std::chrono::steady_clock::time_point> time;
};

class EmulatedGpu;
struct EmulatedModule;

struct EmulatedFunction {
  EmulatedModule* module;
  std::string name;
  int dynamic_shared_limit;
  bool non_portable_cluster = false;
};

struct EmulatedModule {
  EmulatedGpu* gpu;
  ptxemu::Module module;
  std::map<std::string, EmulatedFunction, std::less<>> functions;
};

class EmulatedGpu {
 public:
  EmulatedGpu(const Architecture& architecture, ptxemu::DeviceOptions options)
      : architecture_(architecture), device_(std::move(options)) {}

  const Architecture& architecture() const { return architecture_; }
  // The machine itself; hold `mutex()` while using it.
  ptxemu::Device& machine() { return device_; }
  std::mutex& mutex() { return mutex_; }

  ptxemu::DevicePointer allocate(std::size_t bytes);
  void free(ptxemu::DevicePointer memory);
  // Either side may be memory of the machine or of the host.
  void copy(ptxemu::DevicePointer to, ptxemu::DevicePointer from, std::size_t bytes);

 private:
  bool owns(ptxemu::DevicePointer address) const;

  const Architecture& architecture_;
  ptxemu::Device device_;
  std::map<ptxemu::DevicePointer, std::size_t> allocations_;  // address → bytes
  std::mutex mutex_;
};

// One GPU for each architecture, made at the first call with the options of JFA_EMULATOR.
std::vector<std::unique_ptr<EmulatedGpu>>& emulated_gpus();

// Options written as
// "schedule=random,seed=3,checks=all,threads=2,multiprocessors=8,budget=1000000": when asynchronous
// work happens (eager, lazy, reverse, random), the seed of `random`, what is checked (none, races,
// uninitialised, protocol, all; several joined with +), host threads, how many multiprocessors the
// machine claims, and how many warp-instructions a launch may take. Throws InvalidArgument that
// lists what is allowed.
ptxemu::DeviceOptions parse_emulator_options(std::string_view text);

}  // namespace jfa::device
