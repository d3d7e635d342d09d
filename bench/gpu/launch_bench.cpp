// What a launch costs the calling thread: through the runtime, and by the driver's function alone.
//
//   launch_bench [device]     default: cuda:0
//
// Goal: the runtime adds at most 3 µs.
#include <fmt/format.h>

#include <array>

#include "device/driver_table.hpp"
#include "jfa/error.hpp"
#include "jfa/runtime.hpp"
#include "measure.hpp"

namespace {

namespace runtime = jfa::runtime;
namespace device = jfa::device;

constexpr int kLaunches = 500;  // fewer than the driver queues before it waits
constexpr int kRepeats = 51;

// As many parameters as an attention kernel has: a structure and four tensor maps.
constexpr const char* kManyParameters = R"(
struct alignas(128) Map { unsigned long long words[16]; };
struct Many { unsigned long long words[16]; };
extern "C" __global__ void many_parameters(const __grid_constant__ Many p, const __grid_constant__ Map a,
                                           const __grid_constant__ Map b, const __grid_constant__ Map c,
                                           const __grid_constant__ Map d) {}
)";

// Microseconds a launch in the calling thread; the queue is drained outside the timed part.
template <typename Launch>
double launch_microseconds(runtime::Context& context, const Launch& launch) {
  double best = 1e30;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    context.synchronize();
    const double wall = jfa::bench::time_once([&] {
                          for (int i = 0; i < kLaunches; ++i) {
                            launch();
                          }
                        }).wall;
    best = std::min(best, wall * 1e3 / kLaunches);
  }
  context.synchronize();
  return best;
}

// The kernel's function once more, straight from the driver.
device::Handle load_directly(const device::DriverTable& driver,
                             const jfa::jit::CompiledKernel& compiled) {
  device::Handle module = nullptr;
  device::Handle function = nullptr;
  check(driver, driver.module_load(&module, compiled.image.c_str()), "module");
  check(driver, driver.module_function(&function, module, compiled.symbol.c_str()), "function");
  return function;
}

template <typename... Arguments>
void measure(const char* what, runtime::Context& context, const runtime::Kernel& kernel,
             const runtime::LaunchConfig& config, const Arguments&... arguments) {
  const device::DriverDevice found = device::find_driver(context.info().device);
  const device::DriverTable& driver = *found.driver;
  device::Handle primary = nullptr;
  check(driver, driver.context_retain(&primary, found.device), "context");
  check(driver, driver.context_set_current(primary), "context");
  const device::Handle function = load_directly(driver, kernel.compiled());
  std::array<void*, sizeof...(Arguments)> pointers{
      const_cast<void*>(static_cast<const void*>(&arguments))...};
  std::array<device::LaunchAttribute, 2> attributes;
  device::LaunchConfiguration raw;
  raw.grid = {config.grid.x, config.grid.y, config.grid.z};
  raw.block = {config.block.x, config.block.y, config.block.z};
  raw.attributes = attributes.data();
  if (config.cluster.x > 1) {
    attributes[raw.attribute_count].id = device::LaunchAttribute::cluster_dimension;
    attributes[raw.attribute_count++].value.cluster = {config.cluster.x, 1, 1};
  }
  if (config.overlap_previous) {
    attributes[raw.attribute_count].id = device::LaunchAttribute::programmatic_stream_serialization;
    attributes[raw.attribute_count++].value.allowed = 1;
  }

  const double ours =
      launch_microseconds(context, [&] { kernel.launch_with(config, pointers.data()); });
  const double theirs = launch_microseconds(context, [&] {
    check(driver, driver.launch(&raw, function, pointers.data(), nullptr), "launch");
  });
  fmt::print("{:<44}{:>8.2f} µs{:>8.2f} µs{:>8.2f} µs\n", what, ours, theirs, ours - theirs);
}

void run(const char* name) {
  runtime::Context& context = runtime::open(jfa::parse_device(name));
  fmt::print("{}, {}\n{:<44}{:>11}{:>11}{:>11}\n", context.info().name, context.info().driver, "",
             "runtime", "driver", "added");
  const runtime::Buffer memory(context, 4);
  void* data = memory.data();
  const runtime::Kernel& few =
      context.kernel("examples/vector_add.cu", "jfa::examples::vector_add");
  measure("4 parameters", context, few, {.grid = {1}, .block = {128}}, data, data, data, 0);

  const runtime::Kernel& many =
      context.kernel("examples/vector_add.cu", "many_parameters", {}, kManyParameters);
  struct Many {
    std::array<std::uint64_t, 16> words{};
  };
  const runtime::TensorMap map;
  measure("640 bytes of parameters", context, many, {.grid = {2}, .block = {128}}, Many{}, map, map,
          map, map);
  measure("640 bytes, cluster of 2, overlapping", context, many,
          {.grid = {2}, .block = {128}, .cluster = {2}, .overlap_previous = true}, Many{}, map, map,
          map, map);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run(count > 1 ? arguments[1] : "cuda:0");
  } catch (const jfa::Error& error) {
    fmt::print(stderr, "launch_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
