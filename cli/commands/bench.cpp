// jfa bench: measures problems and states the share of the floor.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands/commands.hpp"
#include "commands/problem_list.hpp"
#include "jfa/error.hpp"
#include "measure/floor.hpp"
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

  constexpr std::size_t kFewest = 3;
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

int run(const Options& options) {
  const std::vector<NamedProblem> problems = read_problems(options.problems);
  const Execution execution = options.common.execution();
  if (execution.device.kind != DeviceKind::cpu) {
    throw Unsupported(fmt::format("--device {}: bench measures on cpu only in this build",
                                  options.common.device));
  }
  const MachinePeak peak = measure_peak(execution.threads);
  Json json = {{"machine",
                {{"processor", processor_name()},
                 {"simd", peak.target},
                 {"threads", peak.threads},
                 {"peak_flops", peak.flops},
                 {"bandwidth", peak.bandwidth}}},
               {"problems", Json::array()}};
  if (!options.common.json) {
    fmt::print("{}, {}, {} threads: {:.1f} GFLOP/s (float32 multiply-add), {:.1f} GB/s (read)\n",
               processor_name(), peak.target, peak.threads, peak.flops / 1e9, peak.bandwidth / 1e9);
    print_header();
  }
  for (const NamedProblem& problem : problems) {
    Timing timing;
    {
      Progress progress("measuring " + problem.line, 0);
      timing = measure(problem, execution, peak, options.seconds);
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
      ->check(CLI::Range(0.0, 3600.0));
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace jfa::tool
