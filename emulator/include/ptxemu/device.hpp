// Public interface of the PTX emulator: a device with global memory that loads PTX text and
// launches kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptxemu/error.hpp"

namespace ptxemu {

/// Address in emulated global memory. It equals the host address of the same byte, so that host
/// memory registered with `Device::register_host_memory` needs no copies.
using DevicePointer = std::uint64_t;

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  [[nodiscard]] std::uint64_t count() const noexcept {
    return std::uint64_t{x} * std::uint64_t{y} * std::uint64_t{z};
  }
};

/// When asynchronous work (bulk copies, wgmma, cp.async, …) executes relative to its issue.
enum class Schedule : std::uint8_t {
  eager,    ///< at once
  lazy,     ///< only when no warp can make progress, oldest first
  reverse,  ///< like lazy, but newest first where the ISA gives no order
  random,   ///< warps and asynchronous work interleaved at random by the seed
};

/// Which lane `elect.sync` picks. The ISA only promises a deterministic choice.
enum class ElectLane : std::uint8_t { lowest, highest };

/// Run-time checkers. Out-of-bounds accesses, misalignment, barrier misuse that cannot be executed
/// and deadlocks are always reported; these cost extra time.
struct Checks {
  bool races = false;          ///< data races, missing proxy fences, reuse of buffers in flight
  bool uninitialised = false;  ///< shared, global and register data used before it was written
  bool protocol =
      false;  ///< mbarrier protocol, wgmma registers in flight, register budgets, leftovers
  [[nodiscard]] bool any() const noexcept { return races || uninitialised || protocol; }
  static Checks all() noexcept { return {true, true, true}; }
};

struct DeviceOptions {
  Schedule schedule = Schedule::eager;
  std::uint64_t seed = 1;     ///< of `Schedule::random`
  std::uint32_t threads = 1;  ///< host threads that run independent clusters; 0 = one per core
  std::uint64_t instruction_budget = 0;  ///< warp-instructions per launch; 0 = unlimited
  double time_budget_seconds = 600;      ///< wall time per launch; 0 = unlimited
  std::uint64_t memory_limit_bytes = std::uint64_t{8} << 30;  ///< global memory in all
  Checks checks;
  ElectLane elect_lane = ElectLane::lowest;
  /// Offset of the first shared-memory byte. Hardware reserves the first 1024 bytes; a smaller
  /// multiple of 16 finds kernels that assume a 1024-byte aligned dynamic buffer without declaring
  /// it.
  std::uint32_t shared_base = 1024;
  std::uint32_t multiprocessors = 132;
  std::uint32_t max_reports = 100;  ///< further reports of a launch are counted, not stored
  /// Receives what kernels print; null collects it in `LaunchResult::printed`.
  std::function<void(std::string_view)> print;
};

enum class ReportKind : std::uint8_t {
  data_race,
  missing_fence,  ///< fence.proxy.async, wgmma.fence or fence.mbarrier_init
  uninitialised,
  out_of_bounds,
  misaligned,
  barrier_protocol,
  deadlock,
  in_flight_reuse,  ///< buffer or wgmma registers touched while an asynchronous operation owns them
  bad_descriptor,   ///< tensor map or shared-memory matrix descriptor
  register_budget,
  left_pending,  ///< asynchronous work or barrier transactions open at the end of the kernel
  divergence,    ///< an `.aligned` instruction that not all lanes of the warp execute together
  illegal_instruction,
  trap,
  assertion,
  budget_exceeded,
};
std::string_view to_string(ReportKind kind);

/// One finding about a launch.
struct Report {
  ReportKind kind = ReportKind::trap;
  std::string message;  ///< what, which threads or agents, and what would have been right
  SourcePosition where;
  std::optional<SourcePosition> other;  ///< the conflicting access, if any
  std::uint64_t count = 1;              ///< occurrences with the same kind and place
};
std::string to_string(const Report& report);

struct Statistics {
  std::uint64_t warp_instructions = 0;
  std::uint64_t thread_instructions = 0;
  std::uint64_t async_operations = 0;
  std::uint64_t tensor_flops = 0;  ///< of wgmma and mma.sync
  std::uint64_t clusters = 0;
  double seconds = 0;
};

struct LaunchConfig {
  Dim3 grid;
  Dim3 block;
  /// Zeros: the kernel's `.reqnctapercluster`, else 1×1×1.
  Dim3 cluster{0, 0, 0};
  std::uint32_t dynamic_shared_bytes = 0;
};

struct LaunchResult {
  bool completed = false;  ///< false: a fault stopped the launch; the last report says which
  std::vector<Report> reports;
  Statistics statistics;
  std::string printed;
  [[nodiscard]] bool clean() const noexcept { return completed && reports.empty(); }
};

/// One formal parameter of a kernel.
struct ParameterInfo {
  std::string name;
  std::uint32_t bytes = 0;
  std::uint32_t alignment = 1;
  std::uint32_t offset = 0;  ///< in the parameter block
};

struct KernelInfo {
  std::string name;
  std::vector<ParameterInfo> parameters;
  std::uint32_t parameter_bytes = 0;
  std::uint32_t static_shared_bytes = 0;  ///< with its alignment padding
  std::uint32_t local_bytes = 0;          ///< per thread
  std::optional<Dim3> required_block;     ///< `.reqntid`
  std::optional<Dim3> maximum_block;      ///< `.maxntid`
  std::optional<Dim3> required_cluster;   ///< `.reqnctapercluster`
  std::uint32_t maximum_registers = 0;    ///< `.maxnreg`, 0 = none
};

/// A loaded PTX text. Lives until it and all kernels taken from it are gone.
class Module {
 public:
  struct Impl;
  explicit Module(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  /// Names of the `.entry` functions in the order of the text.
  [[nodiscard]] std::vector<std::string> kernel_names() const;
  /// Throws Error(not_found) with the names there are.
  [[nodiscard]] const KernelInfo& kernel(std::string_view name) const;
  struct Global {
    DevicePointer address = 0;
    std::uint64_t bytes = 0;
  };
  /// A `.global` or `.const` variable; throws Error(not_found).
  [[nodiscard]] Global global(std::string_view name) const;
  [[nodiscard]] const std::shared_ptr<Impl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

class Device {
 public:
  explicit Device(DeviceOptions options = {});
  ~Device();
  Device(Device&&) noexcept;
  Device& operator=(Device&&) noexcept;

  [[nodiscard]] const DeviceOptions& options() const noexcept;
  /// Takes effect at the next launch.
  void set_options(DeviceOptions options);

  /// Global memory with red zones, 256-byte aligned and filled with a NaN pattern. Zero bytes give
  /// a valid, distinct address. Throws Error(out_of_memory).
  DevicePointer allocate(std::uint64_t bytes);
  /// Address 0 is ignored; any other address must come from `allocate`.
  void free(DevicePointer address);
  /// Makes host memory accessible to kernels under its own address until unregistered.
  void register_host_memory(const void* host, std::uint64_t bytes, bool read_only = false);
  void unregister_host_memory(const void* host);

  /// Every copy and fill checks its device range; throws Error(invalid_argument).
  void copy_to_device(DevicePointer destination, const void* source, std::uint64_t bytes);
  void copy_to_host(void* destination, DevicePointer source, std::uint64_t bytes) const;
  void copy(DevicePointer destination, DevicePointer source, std::uint64_t bytes);
  void fill(DevicePointer destination, std::uint8_t value, std::uint64_t bytes);
  void fill32(DevicePointer destination, std::uint32_t value, std::uint64_t count);

  /// Parses, checks and decodes a PTX text. `name` stands for the file in messages. Throws
  /// Error(parse) or Error(unsupported) with file and line.
  Module load(std::string_view ptx, std::string_view name = "<ptx>");

  /// Runs a kernel to its end. `arguments[i]` points at the value of parameter i, whose size the
  /// kernel knows. Faults of the kernel are reports; wrong launch arguments throw
  /// Error(invalid_argument).
  LaunchResult launch(const Module& module, std::string_view kernel, const LaunchConfig& config,
                      std::span<const void* const> arguments);
  /// The same with the parameter block as one piece of memory.
  LaunchResult launch_packed(const Module& module, std::string_view kernel,
                             const LaunchConfig& config, std::span<const std::byte> parameters);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// One row of the instruction coverage table, generated from the decode table.
struct CoverageRow {
  std::string opcode;
  std::string modifiers;  ///< groups in order; alternatives with `|`, optional groups in brackets
  std::string group;      ///< heading under which the row is listed
  std::string note;
};
std::vector<CoverageRow> instruction_coverage();

}  // namespace ptxemu
