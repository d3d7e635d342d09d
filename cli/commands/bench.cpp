// jfa bench: measures problems and states the share of the floor.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands/commands.hpp"
#include "commands/problem_list.hpp"
#include "jfa/jfa.hpp"
#include "jfa/runtime.hpp"
#include "measure/floor.hpp"
#include "measure/gpu_peak.hpp"
#include "measure/timer.hpp"
#include "terminal/progress.hpp"
#include "terminal/style.hpp"

namespace jfa::tool {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  ProblemOptions problems;
  CommonOptions common;
  double seconds = 1;
};

struct Timing {
  std::string line;
  std::size_t runs = 0;
  double median = 0;  // seconds
  double fastest = 0;
  double plan = 0;
  Work work;
  double floor = 0;

  double share() const { return floor / median; }
};

constexpr std::size_t kFewest = 3;

// A backward problem measures the backward pass alone, a forward problem the forward pass.
Timing measure(const NamedProblem& named, const Execution& execution, const MachinePeak& peak,
               double seconds) {
  const ProblemInstance instance(named.problem);
  const bool backward = named.problem.direction == Direction::backward;
  Timing timing;
  timing.line = named.line;
  Plan plan;
  timing.plan = seconds_of([&] { plan = make_plan(instance.forward(), execution); });
  attention_forward(instance.forward(), execution, &plan);  // backward needs its results
  const auto run = [&] {
    if (backward) {
      attention_backward(instance.backward(), execution, &plan);
    } else {
      attention_forward(instance.forward(), execution, &plan);
    }
  };

  run();  // warm-up
  std::vector<double> times;
  for (double total = 0; times.size() < kFewest || total < seconds; total += times.back()) {
    times.push_back(seconds_of(run));
  }
  timing.runs = times.size();
  timing.median = median_of(times);
  timing.fastest = *std::min_element(times.begin(), times.end());
  timing.work = backward ? backward_work(instance.backward(), plan.statistics())
                         : forward_work(instance.forward(), plan.statistics());
  timing.floor = floor_seconds(timing.work, peak);
  return timing;
}

// Seconds of `run` by events of the device.
template <typename Run>
double device_seconds_of(runtime::Context& context, const Run& run) {
  runtime::Event start(context);
  runtime::Event end(context);
  start.record();
  run();
  end.record();
  end.synchronize();
  return end.milliseconds_since(start) * 1e-3;
}

// Times between events in the stream. The L2 cache is overwritten before every run, as other layers
// would: each input comes from memory.
Timing measure_on_device(const NamedProblem& named, const Execution& execution,
                         const MachinePeak& peak, double seconds) {
  ProblemInstance instance(named.problem);
  if (named.problem.direction == Direction::backward) {
    attention_backward(instance.backward(), execution);  // says that there is none yet
  }
  const DeviceInstance copy(instance, execution.device);
  runtime::Context& context = runtime::open(execution.device);
  Timing timing;
  timing.line = named.line;
  Plan plan = make_plan(copy.forward(), execution);  // compiles
  const runtime::Buffer memory(context, plan_bytes(copy.forward(), execution));
  Execution planning = execution;
  planning.plan_memory = memory.data();
  planning.plan_memory_bytes = memory.bytes();
  timing.plan = device_seconds_of(context, [&] { plan = make_plan(copy.forward(), planning); });
  const auto run = [&] { attention_forward(copy.forward(), execution, &plan); };
  run();  // warm-up
  const runtime::Buffer flushed(context, 2 * static_cast<std::size_t>(context.info().l2_bytes));
  std::vector<double> times;
  for (double total = 0; times.size() < kFewest || total < seconds; total += times.back()) {
    context.fill(flushed.data(), 0, flushed.bytes());
    times.push_back(device_seconds_of(context, run));
  }
  timing.runs = times.size();
  timing.median = median_of(times);
  timing.fastest = *std::min_element(times.begin(), times.end());
  timing.work = forward_work(copy.forward(), plan.statistics());
  timing.floor = floor_seconds(timing.work, peak);
  return timing;
}

void print_header() {
  fmt::print("{}\n",
             paint(Colour::dim, fmt::format("{} {} {} {} {}  problem", pad_left("median", 10),
                                            pad_left("fastest", 10), pad_left("floor", 10),
                                            pad_left("of floor", 9), pad_left("GFLOP/s", 9))));
}

void print(const Timing& timing) {
  fmt::print("{} {} {} {} {}  {}\n", paint(Colour::bold, pad_left(show_seconds(timing.median), 10)),
             pad_left(show_seconds(timing.fastest), 10), pad_left(show_seconds(timing.floor), 10),
             pad_left(show_percent(timing.share()), 9),
             pad_left(fmt::format("{:.1f}", timing.work.flops / timing.median / 1e9), 9),
             timing.line);
}

Json json_of(const Timing& timing) {
  return {{"problem", timing.line},           {"runs", timing.runs},
          {"median_seconds", timing.median},  {"fastest_seconds", timing.fastest},
          {"plan_seconds", timing.plan},      {"floor_seconds", timing.floor},
          {"share_of_floor", timing.share()}, {"flops", timing.work.flops},
          {"bytes", timing.work.bytes}};
}

// What times are compared with, and how the machine is introduced.
struct Machine {
  MachinePeak peak;
  std::string text;
  Json json;
};

Machine cpu_machine(int threads) {
  const MachinePeak peak = measure_peak(threads);
  return {peak,
          fmt::format(
              "{}, {}, {} threads: {:.1f} GFLOP/s (float32 multiply-add), {:.1f} GB/s (read)",
              processor_name(), peak.target, peak.threads, peak.flops / 1e9, peak.bandwidth / 1e9),
          {{"processor", processor_name()},
           {"simd", peak.target},
           {"threads", peak.threads},
           {"peak_flops", peak.flops},
           {"bandwidth", peak.bandwidth}}};
}

Machine gpu_machine(const Device& device) {
  const DeviceInfo info = device_info(device);
  const MachinePeak peak = gpu_peak(info);
  return {peak,
          fmt::format("{}, {}, {} multiprocessors: {:.0f} TFLOP/s (bfloat16 products), {:.2f} TB/s",
                      info.name, info.driver, info.multiprocessors, peak.flops / 1e12,
                      peak.bandwidth / 1e12),
          {{"device", to_string(device)},
           {"name", info.name},
           {"architecture", info.architecture},
           {"multiprocessors", info.multiprocessors},
           {"peak_flops", peak.flops},
           {"bandwidth", peak.bandwidth}}};
}

int run(const Options& options) {
  const std::vector<NamedProblem> problems = read_problems(options.problems);
  const Execution execution = options.common.execution();
  const bool on_cpu = execution.device.kind == DeviceKind::cpu;
  const Machine machine = on_cpu ? cpu_machine(execution.threads) : gpu_machine(execution.device);
  const MachinePeak& peak = machine.peak;
  Json json = {{"machine", machine.json}, {"problems", Json::array()}};
  if (!options.common.json) {
    fmt::print("{}\n", machine.text);
    print_header();
  }
  for (const NamedProblem& problem : problems) {
    Timing timing;
    {
      const Progress progress("measuring " + problem.line, 0);
      timing = on_cpu ? measure(problem, execution, peak, options.seconds)
                      : measure_on_device(problem, execution, peak, options.seconds);
    }
    if (options.common.json) {
      json["problems"].push_back(json_of(timing));
    } else {
      print(timing);
    }
  }
  if (options.common.json) {
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
  }
  return kSuccess;
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measure problems: median time, the floor of this machine, and the share reached");
  options->problems.add_to(*command);
  options->common.add_to(*command);
  command->add_option("--seconds", options->seconds, "Measure each problem at least this long")
      ->capture_default_str()
      ->check(number(0, 3600));
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace jfa::tool
