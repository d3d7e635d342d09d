// Kernels: from the compiled image to the launch.
#include <fmt/format.h>

#include <array>
#include <atomic>

#include "device/context_state.hpp"
#include "jfa/error.hpp"

namespace jfa::runtime {

struct Kernel::State {
  const device::DriverTable* driver = nullptr;
  device::Handle context = nullptr;
  device::Handle module = nullptr;
  device::Handle function = nullptr;
  std::shared_ptr<const jit::CompiledKernel> compiled;
  // Without asking, a launch may have 48 KiB of shared memory; this much has been asked for.
  std::atomic<unsigned> granted_shared_bytes{0};

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  // Modules are never unloaded: contexts live as long as the process, and work may be in flight.
  ~State() = default;
};

namespace {

// The clusters that every GPU runs have at most 8 blocks.
constexpr unsigned kPortableCluster = 8;

std::string describe(const LaunchConfig& config) {
  return fmt::format(
      "grid {}×{}×{}, block {}×{}×{}, cluster {}×{}×{}, {} bytes of dynamic shared "
      "memory",
      config.grid.x, config.grid.y, config.grid.z, config.block.x, config.block.y, config.block.z,
      config.cluster.x, config.cluster.y, config.cluster.z, config.dynamic_shared_bytes);
}

void set_attribute(const Kernel::State& kernel, device::FunctionAttribute attribute, int value,
                   const LaunchConfig& config) {
  device::check(*kernel.driver,
                kernel.driver->set_function_attribute(kernel.function, attribute, value),
                fmt::format("kernel {} cannot be launched with {}", kernel.compiled->request.entry,
                            describe(config)));
}

void grant_shared_bytes(Kernel::State& kernel, const LaunchConfig& config) {
  if (config.dynamic_shared_bytes > kernel.granted_shared_bytes.load(std::memory_order_relaxed)) {
    set_attribute(kernel, device::FunctionAttribute::dynamic_shared_bytes,
                  static_cast<int>(config.dynamic_shared_bytes), config);
    kernel.granted_shared_bytes.store(config.dynamic_shared_bytes, std::memory_order_relaxed);
  }
}

std::string cache_key(const std::string& source, const std::string& entry,
                      const std::vector<std::string>& options, const std::string& snippet) {
  std::string key = source + '\0' + entry + '\0' + snippet;
  for (const std::string& option : options) {
    key += '\0' + option;
  }
  return key;
}

}  // namespace

Kernel::Kernel(std::unique_ptr<State> state) : state_(std::move(state)) {}
Kernel::~Kernel() = default;
Kernel::Kernel(Kernel&&) noexcept = default;
Kernel& Kernel::operator=(Kernel&&) noexcept = default;

const jit::CompiledKernel& Kernel::compiled() const {
  return *state_->compiled;
}

void Kernel::launch_with(const LaunchConfig& config, void** arguments) const {
  if (config.grid.x == 0 || config.grid.y == 0 || config.grid.z == 0) {
    return;
  }
  const CurrentContext current(*state_->driver, state_->context);
  grant_shared_bytes(*state_, config);

  std::array<device::LaunchAttribute, 2> attributes;
  device::LaunchConfiguration configuration{
      .grid = {config.grid.x, config.grid.y, config.grid.z},
      .block = {config.block.x, config.block.y, config.block.z},
      .dynamic_shared_bytes = config.dynamic_shared_bytes,
      .stream = config.stream,
      .attributes = attributes.data(),
  };
  const unsigned cluster = config.cluster.x * config.cluster.y * config.cluster.z;
  if (cluster > 1) {
    if (cluster > kPortableCluster) {
      set_attribute(*state_, device::FunctionAttribute::non_portable_cluster, 1, config);
    }
    device::LaunchAttribute& attribute = attributes[configuration.attribute_count++];
    attribute.id = device::LaunchAttribute::cluster_dimension;
    attribute.value.cluster = {config.cluster.x, config.cluster.y, config.cluster.z};
  }
  if (config.overlap_previous) {
    device::LaunchAttribute& attribute = attributes[configuration.attribute_count++];
    attribute.id = device::LaunchAttribute::programmatic_stream_serialization;
    attribute.value.allowed = 1;
  }

  const device::Status status =
      state_->driver->launch(&configuration, state_->function, arguments, nullptr);
  if (status != device::kSuccess) {
    device::fail(*state_->driver, status,
                 fmt::format("kernel {} failed at launch with {}", compiled().request.entry,
                             describe(config)));
  }
}

int Kernel::resident_blocks(unsigned threads, unsigned dynamic_shared_bytes) const {
  const CurrentContext current(*state_->driver, state_->context);
  grant_shared_bytes(*state_, {.block = {threads}, .dynamic_shared_bytes = dynamic_shared_bytes});
  int blocks = 0;
  device::check(*state_->driver,
                state_->driver->occupancy(&blocks, state_->function, static_cast<int>(threads),
                                          dynamic_shared_bytes),
                fmt::format("cannot count the resident blocks of {}", compiled().request.entry));
  return blocks;
}

Kernel load_kernel(Context::State& context, std::shared_ptr<const jit::CompiledKernel> compiled) {
  const device::DriverTable& driver = *context.driver;
  auto state = std::make_unique<Kernel::State>();
  state->driver = &driver;
  state->context = context.context;
  state->compiled = std::move(compiled);
  const std::string what = fmt::format("{} does not accept {}", context.info.driver,
                                       to_string(state->compiled->request));
  device::check(driver, driver.module_load(&state->module, state->compiled->image.c_str()), what);
  device::check(
      driver,
      driver.module_function(&state->function, state->module, state->compiled->symbol.c_str()),
      what);
  return Kernel(std::move(state));
}

const Kernel& Context::kernel(const std::string& source, const std::string& entry,
                              const std::vector<std::string>& options, const std::string& snippet) {
  const std::string key = cache_key(source, entry, options, snippet);
  const std::lock_guard lock(state_->kernels_mutex);
  const auto found = state_->kernels.find(key);
  if (found != state_->kernels.end()) {
    return found->second;
  }
  std::shared_ptr<const jit::CompiledKernel> compiled =
      jit::default_store().get({.source = source,
                                .entry = entry,
                                .architecture = state_->info.architecture,
                                .kind = state_->driver->image,
                                .options = options,
                                .snippet = snippet});
  const CurrentContext current(*state_->driver, state_->context);
  return state_->kernels.emplace(key, load_kernel(*state_, std::move(compiled))).first->second;
}

}  // namespace jfa::runtime
