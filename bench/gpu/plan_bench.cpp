// What a plan costs on the device: alone, and behind a kernel that it may overlap.
//
//   plan_bench [device]     default: cuda:0
//
// Goal on an H200: at most 5 µs for 1,152 sequences, 25 µs for 70,000.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "jfa/error.hpp"
#include "jfa/runtime.hpp"
#include "plan/plan_arguments.h"

namespace {

namespace runtime = jfa::runtime;
namespace kernels = jfa::kernels;

constexpr int kPlans = 200;  // of one measurement
constexpr int kRepeats = 15;

// One CTA a multiprocessor that is busy for a while, then lets the next kernel start.
constexpr const char* kBusy = R"(
extern "C" __global__ void busy(unsigned rounds) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  float value = threadIdx.x;
  for (unsigned i = 0; i < rounds; ++i) asm volatile("fma.rn.f32 %0, %0, %0, 0f3f800000;" : "+f"(value));
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
)";

struct Workload {
  const char* name;
  std::vector<int> lengths;
};

// Half of `longest` on average, the same on every machine.
std::vector<int> spread(int batch, int longest) {
  std::vector<int> lengths;
  unsigned state = 1;
  for (int b = 0; b < batch; ++b) {
    state = state * 1664525U + 1013904223U;
    lengths.push_back(static_cast<int>((state >> 8) % static_cast<unsigned>(longest + 1)));
  }
  return lengths;
}

template <typename T>
T* device_array(std::vector<runtime::Buffer>& buffers, runtime::Context& context, int count) {
  buffers.emplace_back(context, static_cast<std::size_t>(std::max(count, 1)) * sizeof(T));
  return static_cast<T*>(buffers.back().data());
}

double median_microseconds(runtime::Context& context, int count, const auto& body) {
  std::vector<double> times;
  runtime::Event start(context), end(context);
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    start.record();
    for (int i = 0; i < count; ++i) body();
    end.record();
    end.synchronize();
    times.push_back(end.milliseconds_since(start) * 1e3 / count);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void measure(runtime::Context& context, const Workload& workload, const char* mask) {
  std::vector<runtime::Buffer> buffers;
  std::vector<int> offsets{0};
  for (const int length : workload.lengths) offsets.push_back(offsets.back() + length);
  const int batch = static_cast<int>(workload.lengths.size());
  int* const on_device = device_array<int>(buffers, context, batch + 1);
  context.copy(on_device, offsets.data(), offsets.size() * sizeof(int));
  context.synchronize();

  kernels::PlanArguments p;
  p.q.offsets.data = on_device;
  p.q.rows = offsets.back();
  p.kv = p.q;
  p.batch = p.kv_batch = batch;
  p.out_rows = offsets.back();
  p.most_tiles = (p.out_rows + p.tile_tokens - 1) / p.tile_tokens + batch;
  p.most_gaps = batch + 1 + (p.out_rows + kernels::kGapRows - 1) / kernels::kGapRows;
  p.counter_slots = 64;
  p.section = kernels::plan_launch(batch).section;
  p.header = device_array<kernels::PlanHeader>(buffers, context, 1);
  p.counters = device_array<kernels::WorkCounters>(buffers, context, p.counter_slots);
  p.sequences = device_array<kernels::SequenceRows>(buffers, context, batch);
  p.tiles = device_array<kernels::TileWork>(buffers, context, p.most_tiles);
  p.gaps = device_array<kernels::RowGap>(buffers, context, p.most_gaps);
  p.mask.targets.value = 10;
  p.mask.contextual.value = 2;
  p.mask.max_attention_length.value = 100;

  const runtime::Kernel& plan = context.kernel(
      "plan/plan.cu", fmt::format("jfa::kernels::plan<jfa::kernels::MaskParameters::{}>", mask));
  const runtime::Kernel& busy = context.kernel("plan/plan.cu", "busy", {}, kBusy);
  const kernels::PlanLaunch launch = kernels::plan_launch(batch);
  const auto blocks = static_cast<unsigned>(launch.blocks);
  const auto launch_plan = [&](bool overlap) {
    plan.launch({.grid = {blocks},
                 .block = {static_cast<unsigned>(launch.threads)},
                 .cluster = {blocks},
                 .dynamic_shared_bytes = static_cast<unsigned>(launch.shared_bytes),
                 .overlap_previous = overlap},
                p);
  };
  const auto launch_busy = [&] {
    busy.launch({.grid = {static_cast<unsigned>(context.info().multiprocessors)},
                 .block = {32},
                 .overlap_previous = true},
                8000U);
  };
  for (int i = 0; i < 20; ++i) launch_plan(false);
  const double alone = median_microseconds(context, kPlans, [&] { launch_plan(false); });
  const double without = median_microseconds(context, kPlans, launch_busy);
  const double behind = median_microseconds(context, kPlans, [&] {
    launch_busy();
    launch_plan(true);
  });
  kernels::PlanHeader header{};
  context.copy(&header, p.header, sizeof header);
  context.synchronize();
  fmt::print("{:<22} {:<12} {:>7} {:>7} {:>6} {:>9.2f} {:>9.2f}\n", workload.name, mask, batch,
             header.tiles, blocks, alone, behind - without);
}

void run(const char* name) {
  runtime::Context& context = runtime::open(jfa::parse_device(name));
  fmt::print("{}, {}\n{:<22} {:<12} {:>7} {:>7} {:>6} {:>9} {:>9}\n", context.info().name,
             context.info().driver, "", "mask", "batch", "tiles", "CTAs", "alone µs", "added µs");
  const std::array workloads = {
      Workload{"nothing", {}},
      Workload{"one sequence", {1000}},
      Workload{"one long sequence", {1 << 20}},
      Workload{"1,152 up to 200", spread(1152, 200)},
      Workload{"1,152 up to 1000", spread(1152, 1000)},
      Workload{"1,152 of 2048", std::vector<int>(1152, 2048)},
      Workload{"8,192 up to 24", spread(8192, 24)},
      Workload{"70,000 up to 24", spread(70000, 24)},
      Workload{"70,000 up to 400", spread(70000, 400)},
  };
  for (const Workload& workload : workloads) measure(context, workload, "full");
  for (const char* mask : {"causal", "hstu"}) {
    measure(context, workloads[4], mask);
    measure(context, workloads[5], mask);
    measure(context, workloads[8], mask);
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run(count > 1 ? arguments[1] : "cuda:0");
  } catch (const jfa::Error& error) {
    fmt::print(stderr, "plan_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
