// What attention_forward costs the calling thread on a device, and how much of it is not the
// launch.
//
//   call_bench [device]     default: cuda:0
//
// Goal: at most 5 µs beyond the launch for a call that has a plan and a workspace.
#include <fmt/format.h>

#include "jfa/jfa.hpp"
#include "jfa/runtime.hpp"
#include "measure.hpp"

namespace {

using jfa::DeviceInstance;
using jfa::Execution;
using jfa::Plan;
using jfa::ProblemInstance;

constexpr int kCalls = 200;  // fewer than the driver queues before it waits
constexpr int kRepeats = 21;

// Microseconds of the calling thread; the queue is drained outside the timed part.
template <typename Call>
double microseconds(jfa::runtime::Context& context, const Call& call) {
  double best = 1e30;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    context.synchronize();
    const double wall = jfa::bench::time_once([&] {
                          for (int i = 0; i < kCalls; ++i) call();
                        }).wall;
    best = std::min(best, wall * 1e3 / kCalls);
  }
  context.synchronize();
  return best;
}

// A launch with as many parameters as the forward kernel has, that does nothing.
constexpr const char* kLikeForward = R"(
struct alignas(128) Map { unsigned long long words[16]; };
struct Arguments { unsigned long long words[64]; };
extern "C" __global__ void like_forward(const __grid_constant__ Arguments p, const __grid_constant__ Map a,
                                        const __grid_constant__ Map b, const __grid_constant__ Map c,
                                        const __grid_constant__ Map d) {}
)";

void measure(jfa::runtime::Context& context, const Execution& execution, const char* line,
             double launch) {
  ProblemInstance instance(jfa::parse_problem(line));
  const DeviceInstance copy(instance, execution.device);
  const auto& args = copy.forward();
  const Plan plan = make_plan(args, execution);
  const jfa::runtime::Buffer workspace(context, forward_workspace_bytes(args, execution, Plan{}));
  Execution with = execution;
  with.workspace = workspace.data();
  with.workspace_bytes = workspace.bytes();
  const double planned = microseconds(context, [&] { attention_forward(args, with, &plan); });
  const double plain = microseconds(context, [&] { attention_forward(args, with); });
  fmt::print("{:6.2f} µs with a plan, {:5.2f} beyond a launch; {:6.2f} µs without   {}\n", planned,
             planned - launch, plain, line);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Execution execution;
    execution.device = jfa::parse_device(argc > 1 ? argv[1] : "cuda:0");
    jfa::runtime::Context& context = jfa::runtime::open(execution.device);
    struct alignas(128) Map {
      std::uint64_t words[16];
    } map{};
    struct {
      std::uint64_t words[64];
    } arguments{};
    const auto& kernel = context.kernel("examples/vector_add.cu", "like_forward", {}, kLikeForward);
    const double launch = microseconds(context, [&] {
      kernel.launch({.grid = {1}, .block = {128}, .overlap_previous = true}, arguments, map, map,
                    map, map);
    });
    fmt::print("{:6.2f} µs a launch of a kernel with as many parameters\n", launch);
    measure(context, execution, "fwd bf16 d=128 h=1 q=17", launch);
    measure(context, execution, "fwd bf16 d=128 h=1 mask=hstu:targets=3 q=17,4", launch);
    measure(context, execution, "fwd bf16 d=64 h=1 q=dense:batch=2,rows=9", launch);
  } catch (const jfa::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
