// The device: memory, modules, launches.
#include "ptxemu/device.hpp"

#include <cstring>
#include <mutex>
#include <thread>

#include "api/module_impl.hpp"
#include "api/reports.hpp"
#include "check/checker.hpp"
#include "exec/cluster.hpp"

namespace ptxemu {
namespace {

constexpr std::uint64_t kSlice = 1 << 18;  // warp-instructions before another cluster gets its turn
constexpr std::uint32_t kMaxThreadsPerBlock = 1024;
constexpr std::uint32_t kMaxClusterSize = 16;
constexpr std::uint32_t kMaxSharedBytes = 227 * 1024;
constexpr std::uint64_t kMaxResidentCtas = 256;
/// Turns in a row of each cluster in which all threads only slept and looked again, after which the
/// launch is taken for stuck.
constexpr std::uint64_t kPatience = 20'000;
constexpr std::size_t kMaxPrinted = std::size_t{64} << 20;

void require(bool condition, const std::string& message) {
  if (!condition) throw Error(ErrorKind::invalid_argument, message);
}

std::string text(Dim3 d) {
  return std::to_string(d.x) + "x" + std::to_string(d.y) + "x" + std::to_string(d.z);
}

/// Throws for what the driver would refuse; fills in the cluster size.
LaunchConfig checked(const ir::Kernel& kernel, LaunchConfig config) {
  const KernelInfo& info = kernel.info;
  const std::string name = "launch of '" + info.name + "': ";
  if (config.cluster.count() == 0) config.cluster = info.required_cluster.value_or(Dim3{1, 1, 1});
  require(config.grid.count() != 0, name + "grid " + text(config.grid) + " is empty");
  require(config.grid.y <= 65535 && config.grid.z <= 65535 && config.grid.x <= 0x7fffffff,
          name + "grid " + text(config.grid) + " exceeds 2147483647x65535x65535");
  require(config.block.count() != 0 && config.block.count() <= kMaxThreadsPerBlock &&
              config.block.z <= 64,
          name + "block " + text(config.block) + " must have 1 … 1024 threads, z up to 64");
  if (info.required_block)
    require(config.block.x == info.required_block->x && config.block.y == info.required_block->y &&
                config.block.z == info.required_block->z,
            name + "block " + text(config.block) + " is not the required " +
                text(*info.required_block));
  if (info.maximum_block)
    require(config.block.count() <= info.maximum_block->count(),
            name + "block " + text(config.block) + " has more threads than .maxntid " +
                text(*info.maximum_block));
  if (info.required_cluster)
    require(config.cluster.x == info.required_cluster->x &&
                config.cluster.y == info.required_cluster->y &&
                config.cluster.z == info.required_cluster->z,
            name + "cluster " + text(config.cluster) + " is not the required " +
                text(*info.required_cluster));
  require(config.cluster.count() != 0 && config.cluster.count() <= kMaxClusterSize,
          name + "cluster " + text(config.cluster) + " must have 1 … 16 blocks");
  require(config.grid.x % config.cluster.x == 0 && config.grid.y % config.cluster.y == 0 &&
              config.grid.z % config.cluster.z == 0,
          name + "grid " + text(config.grid) + " is not a multiple of the cluster " +
              text(config.cluster));
  const std::uint64_t shared =
      std::uint64_t{kernel.static_shared_end} - kernel.shared_base + config.dynamic_shared_bytes;
  require(shared <= kMaxSharedBytes, name + std::to_string(shared) + " bytes of shared memory (" +
                                         std::to_string(config.dynamic_shared_bytes) +
                                         " dynamic) exceed " + std::to_string(kMaxSharedBytes));
  require(config.grid.count() / config.cluster.count() <= 0xffffffff, name + "too many clusters");
  return config;
}

/// Takes clusters in grid order. Clusters that use up their slice wait while others start, so that
/// clusters may wait for each other as far as they fit on a device at once.
class Worker {
 public:
  Worker(exec::Launch& launch, std::atomic<std::uint64_t>& next, std::uint64_t total,
         std::uint64_t resident)
      : launch_(launch), next_(next), total_(total), resident_(resident) {}

  void run() {
    try {
      while (advance()) {
      }
    } catch (const exec::Fault&) {
      launch_.stop.store(true);                // the report has been made
    } catch (const std::exception& problem) {  // e.g. no memory for the registers of a cluster
      launch_.reports->add(ReportKind::illegal_instruction, nullptr,
                           std::string("the emulator cannot go on: ") + problem.what(), nullptr);
      launch_.stop.store(true);
    }
    note(true);  // a worker without clusters waits for nothing
  }

 private:
  bool advance() {
    if (launch_.stop.load(std::memory_order_relaxed)) return false;
    if (turn_ >= clusters_.size()) {
      turn_ = 0;
      if (clusters_.size() < resident_) {
        const std::uint64_t index = next_.fetch_add(1);
        if (index < total_) {
          clusters_.push_back(std::make_unique<exec::Cluster>(launch_, index));
          turn_ = clusters_.size() - 1;
        }
      }
      if (clusters_.empty()) return false;
    }
    exec::Cluster& cluster = *clusters_[turn_];
    const std::uint64_t progress = cluster.progress();
    const exec::ClusterStatus status = cluster.run(kSlice);
    if (status == exec::ClusterStatus::idle && cluster.progress() == progress) {
      wait(cluster);
    } else {
      turns_ = 0;
      settled_ = false;
      note(false);
    }
    if (status == exec::ClusterStatus::finished) {
      clusters_.erase(clusters_.begin() + static_cast<std::ptrdiff_t>(turn_));
    } else {
      ++turn_;
    }
    return true;
  }

  /// Another turn in which a cluster only slept. When all workers have seen nothing else for long,
  /// and this one even after the others, nobody is left to end the wait.
  void wait(exec::Cluster& cluster) {
    if (++turns_ < kPatience * clusters_.size()) return;
    turns_ = 0;
    note(true);
    const bool all = launch_.quiet_workers.load() == launch_.workers;
    if (all && settled_)
      cluster.give_up("all threads of the grid sleep or wait, and nothing has changed for long");
    settled_ = all;
  }
  void note(bool quiet) {
    if (quiet == quiet_) return;
    quiet_ = quiet;
    launch_.quiet_workers.fetch_add(quiet ? 1u : ~0u);
  }

  exec::Launch& launch_;
  std::atomic<std::uint64_t>& next_;
  std::uint64_t total_;
  std::uint64_t resident_;
  std::vector<std::unique_ptr<exec::Cluster>> clusters_;
  std::size_t turn_ = 0;
  std::uint64_t turns_ = 0;  ///< since something happened
  bool quiet_ = false;
  bool settled_ = false;  ///< all workers were quiet when this one looked last
};

}  // namespace

struct Device::Impl {
  explicit Impl(DeviceOptions options_in)
      : options(std::move(options_in)),
        memory(std::make_shared<mem::GlobalMemory>(options.memory_limit_bytes)) {}

  DeviceOptions options;
  std::shared_ptr<mem::GlobalMemory> memory;
  Reports reports;
  std::unique_ptr<exec::LaunchObserver> observer;

  void make_observer() {
    observer = options.checks.any() ? check::make_checker(options.checks, reports) : nullptr;
  }
  std::byte* range(DevicePointer address, std::uint64_t bytes, const char* what) const {
    if (memory->find(address, bytes) == nullptr)
      throw Error(ErrorKind::invalid_argument, std::string(what) + " of " + std::to_string(bytes) +
                                                   " bytes: " + memory->describe(address));
    return reinterpret_cast<std::byte*>(address);
  }
  void host_wrote(DevicePointer address, std::uint64_t bytes) {
    if (observer) observer->on_host_write(address, bytes);
  }
};

namespace {

void check_options(const DeviceOptions& options) {
  require(options.shared_base >= 16 && options.shared_base % 16 == 0 && options.shared_base <= 1024,
          "shared_base must be a multiple of 16 in 16 … 1024, not " +
              std::to_string(options.shared_base));
  require(options.multiprocessors != 0, "multiprocessors must not be 0");
#if defined(__x86_64__) && defined(__AVX2__)
  require(__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0,
          "this build of the emulator needs a processor with AVX2 and FMA; configure with "
          "-DPTXEMU_MARCH=x86-64");
#endif
}

}  // namespace

Device::Device(DeviceOptions options) {
  check_options(options);
  impl_ = std::make_unique<Impl>(std::move(options));
  impl_->make_observer();
}
Device::~Device() = default;
Device::Device(Device&&) noexcept = default;
Device& Device::operator=(Device&&) noexcept = default;

const DeviceOptions& Device::options() const noexcept {
  return impl_->options;
}

void Device::set_options(DeviceOptions options) {
  check_options(options);
  const Checks before = impl_->options.checks;
  const Checks now = options.checks;
  impl_->memory->set_limit(options.memory_limit_bytes);
  impl_->options = std::move(options);
  if (before.races != now.races || before.uninitialised != now.uninitialised ||
      before.protocol != now.protocol)
    impl_->make_observer();
}

DevicePointer Device::allocate(std::uint64_t bytes) {
  const DevicePointer address = impl_->memory->allocate(bytes);
  if (impl_->observer) impl_->observer->on_global_allocate(address, bytes, false);
  return address;
}

void Device::free(DevicePointer address) {
  if (address == 0) return;
  impl_->memory->free(address);
  if (impl_->observer) impl_->observer->on_global_free(address);
}

void Device::register_host_memory(const void* host, std::uint64_t bytes, bool read_only) {
  impl_->memory->add_host_range(host, bytes, read_only);
  if (impl_->observer)
    impl_->observer->on_global_allocate(reinterpret_cast<DevicePointer>(host), bytes, true);
}
void Device::unregister_host_memory(const void* host) {
  impl_->memory->remove_host_range(host);
  if (impl_->observer) impl_->observer->on_global_free(reinterpret_cast<DevicePointer>(host));
}

void Device::copy_to_device(DevicePointer destination, const void* source, std::uint64_t bytes) {
  if (bytes == 0) return;
  std::memcpy(impl_->range(destination, bytes, "copy to the device"), source, bytes);
  impl_->host_wrote(destination, bytes);
}
void Device::copy_to_host(void* destination, DevicePointer source, std::uint64_t bytes) const {
  if (bytes == 0) return;
  std::memcpy(destination, impl_->range(source, bytes, "copy to the host"), bytes);
}
void Device::copy(DevicePointer destination, DevicePointer source, std::uint64_t bytes) {
  if (bytes == 0) return;
  const std::byte* from = impl_->range(source, bytes, "copy");
  std::memmove(impl_->range(destination, bytes, "copy"), from, bytes);
  impl_->host_wrote(destination, bytes);
}
void Device::fill(DevicePointer destination, std::uint8_t value, std::uint64_t bytes) {
  if (bytes == 0) return;
  std::memset(impl_->range(destination, bytes, "fill"), value, bytes);
  impl_->host_wrote(destination, bytes);
}
void Device::fill32(DevicePointer destination, std::uint32_t value, std::uint64_t count) {
  if (count == 0) return;
  require(count <= ~std::uint64_t{0} / 4, "fill32 of too many words");
  std::byte* to = impl_->range(destination, count * 4, "fill");
  for (std::uint64_t i = 0; i < count; ++i) std::memcpy(to + 4 * i, &value, 4);
  impl_->host_wrote(destination, count * 4);
}

Module Device::load(std::string_view ptx, std::string_view name) {
  return Module(
      std::make_shared<Module::Impl>(ptx, name, impl_->memory, impl_->options.shared_base));
}

LaunchResult Device::launch(const Module& module, std::string_view kernel,
                            const LaunchConfig& config, std::span<const void* const> arguments) {
  const KernelInfo& info = module.kernel(kernel);
  require(arguments.size() == info.parameters.size(),
          "launch of '" + info.name + "' passes " + std::to_string(arguments.size()) +
              " arguments; it takes " + std::to_string(info.parameters.size()));
  std::vector<std::byte> block(info.parameter_bytes);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    require(arguments[i] != nullptr || info.parameters[i].bytes == 0,
            "launch of '" + info.name + "': argument " + std::to_string(i) + " is null");
    if (info.parameters[i].bytes != 0)
      std::memcpy(block.data() + info.parameters[i].offset, arguments[i], info.parameters[i].bytes);
  }
  return launch_packed(module, kernel, config, block);
}

LaunchResult Device::launch_packed(const Module& module, std::string_view name,
                                   const LaunchConfig& config,
                                   std::span<const std::byte> parameters) {
  const ir::Kernel& kernel = module.impl()->kernel(name);
  require(module.impl()->memory == impl_->memory, "the module was loaded on another device");
  require(kernel.shared_base == impl_->options.shared_base,
          "the module was loaded with another shared_base; load it again");
  require(parameters.size() == kernel.info.parameter_bytes,
          "launch of '" + kernel.info.name + "' passes " + std::to_string(parameters.size()) +
              " bytes of parameters; it takes " + std::to_string(kernel.info.parameter_bytes));
  exec::Launch launch;
  launch.kernel = &kernel;
  launch.config = checked(kernel, config);
  launch.options = impl_->options;
  launch.memory = impl_->memory.get();
  launch.reports = &impl_->reports;
  launch.observer = impl_->observer.get();
  launch.start = std::chrono::steady_clock::now();
  LaunchResult result;
  std::mutex print_mutex;
  launch.print = [&](std::string_view text) {
    const std::lock_guard lock(print_mutex);
    if (impl_->options.print) {
      impl_->options.print(text);
    } else if (result.printed.size() < kMaxPrinted) {
      result.printed += text;
    }
  };
  // Parameters are read-only memory with an address of their own: tensor maps live there.
  struct Block {
    mem::GlobalMemory& memory;
    DevicePointer address;
    ~Block() { memory.free(address); }
  };
  const Block block{*impl_->memory,
                    impl_->memory->allocate(parameters.size(), "kernel parameters", true)};
  launch.parameters = reinterpret_cast<std::byte*>(block.address);
  if (!parameters.empty()) std::memcpy(launch.parameters, parameters.data(), parameters.size());
  impl_->reports.begin(kernel, impl_->options.max_reports);

  const std::uint64_t cluster_size = launch.config.cluster.count();
  const std::uint64_t total = launch.config.grid.count() / cluster_size;
  std::uint64_t threads =
      impl_->options.threads != 0 ? impl_->options.threads : std::thread::hardware_concurrency();
  threads = std::clamp<std::uint64_t>(threads, 1, std::min<std::uint64_t>(total, 256));
  const std::uint64_t resident =
      std::max<std::uint64_t>(1, kMaxResidentCtas / cluster_size / threads);
  launch.workers = static_cast<std::uint32_t>(threads);
  std::atomic<std::uint64_t> next{0};
  {
    std::vector<std::jthread> pool;
    for (std::uint64_t t = 1; t < threads; ++t)
      pool.emplace_back([&] { Worker(launch, next, total, resident).run(); });
    Worker(launch, next, total, resident).run();
  }
  result.completed = !launch.stop.load();
  if (impl_->observer)
    impl_->observer->on_kernel_end();  // after a fault, too: the next launch starts afresh
  result.reports = impl_->reports.take();
  Statistics& statistics = result.statistics;
  statistics.warp_instructions = launch.warp_instructions;
  statistics.thread_instructions = launch.thread_instructions;
  statistics.async_operations = launch.async_operations;
  statistics.tensor_flops = launch.tensor_flops;
  statistics.clusters = std::min<std::uint64_t>(next.load(), total);
  statistics.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - launch.start).count();
  return result;
}

}  // namespace ptxemu
