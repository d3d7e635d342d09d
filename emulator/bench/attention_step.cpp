// Times attention steps (see attention_step.cu) without checkers and with all of them, and eight
// independent clusters on one and on two threads.
#include <cstdio>
#include <ctime>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "numeric/convert.hpp"
#include "ptxemu/device.hpp"

namespace {

using namespace ptxemu;

constexpr std::size_t kTileBytes = 128 * 128 * 2;
constexpr std::uint32_t kSharedBytes = 3 * kTileBytes + 1024;

void measure(const std::string& ptx, const char* name, DeviceOptions options, std::uint32_t blocks,
             int steps) {
  Device device(options);
  const Module module = device.load(ptx, "attention_step.ptx");
  std::mt19937 generator(3);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> tile(kTileBytes / 2);
  DevicePointer inputs[3];
  for (DevicePointer& input : inputs) {
    for (std::uint16_t& value : tile) value = numeric::f32_to_bf16(normal(generator));
    input = device.allocate(kTileBytes);
    device.copy_to_device(input, tile.data(), kTileBytes);
  }
  const DevicePointer out = device.allocate(std::uint64_t{blocks} * 256 * 64 * 4);
  const std::vector<const void*> arguments{&inputs[0], &inputs[1], &inputs[2], &out, &steps};
  LaunchConfig config;
  config.grid = {blocks, 1, 1};
  config.block = {256, 1, 1};
  config.dynamic_shared_bytes = kSharedBytes;
  const std::clock_t start = std::clock();  // processor time of all threads
  const LaunchResult result = device.launch(module, "attention_steps", config, arguments);
  const double processor_seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  for (const Report& report : result.reports) std::printf("%s\n", to_string(report).c_str());
  const Statistics& s = result.statistics;
  std::printf(
      "%-28s %8.3f ms per step  %8.2f M warp-instructions/s  %6.2f GFLOP/s  %4.2f cores used\n",
      name, s.seconds * 1e3 / steps / blocks,
      static_cast<double>(s.warp_instructions) / s.seconds * 1e-6,
      static_cast<double>(s.tensor_flops) / s.seconds * 1e-9, processor_seconds / s.seconds);
}

}  // namespace

int main() {
  std::ifstream file(PTXEMU_BENCH_PTX);
  std::ostringstream content;
  content << file.rdbuf();
  const std::string ptx = content.str();
  if (ptx.empty()) {
    std::printf("cannot read %s\n", PTXEMU_BENCH_PTX);
    return 1;
  }
  std::printf("128x128 attention step, D = 128\n");
  DeviceOptions options;
  measure(ptx, "unchecked, eager", options, 1, 40);
  options.schedule = Schedule::lazy;
  measure(ptx, "unchecked, lazy", options, 1, 40);
  options.checks = Checks::all();
  measure(ptx, "all checkers", options, 1, 20);
  for (const bool checked : {false, true}) {
    options.checks = checked ? Checks::all() : Checks{};
    for (const std::uint32_t threads : {1u, 2u}) {
      options.threads = threads;
      const std::string name =
          "8 clusters, " + std::to_string(threads) + " threads" + (checked ? ", all checkers" : "");
      measure(ptx, name.c_str(), options, 8, 100);
    }
  }
  return 0;
}
