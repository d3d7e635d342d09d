// jfa explain: what would run a problem, how its work is cut up, and how fast it could be.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands/commands.hpp"
#include "commands/problem_list.hpp"
#include "jfa/error.hpp"
#include "measure/floor.hpp"
#include "terminal/style.hpp"

namespace jfa::tool {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  ProblemOptions problems;
  CommonOptions common;
};

Json json_of(const PlanStatistics& plan) {
  return {{"batch", plan.batch},
          {"empty_sequences", plan.empty_sequences},
          {"query_rows", plan.query_rows},
          {"key_rows", plan.key_rows},
          {"tiles", plan.tiles},
          {"packed_tiles", plan.packed_tiles},
          {"tile_rows", plan.tile_rows},
          {"row_fill", plan.row_fill},
          {"visible_pairs", plan.visible_pairs},
          {"computed_pairs", plan.computed_pairs},
          {"padded_pairs", plan.padded_pairs},
          {"largest_tile_share", plan.largest_tile_share}};
}

int run(const Options& options) {
  const std::vector<NamedProblem> problems = read_problems(options.problems);
  const Execution execution = options.common.execution();
  const MachinePeak peak = measure_peak(execution.threads);
  const std::string choice = fmt::format("CPU engine, {}, {} threads", peak.target, peak.threads);
  Json json = Json::array();
  for (const NamedProblem& named : problems) {
    const ProblemInstance instance(named.problem);
    const PlanStatistics plan = make_plan(instance.forward(), execution).statistics();
    const bool backward = named.problem.direction == Direction::backward;
    const Work work = backward ? backward_work(instance.backward(), plan)
                               : forward_work(instance.forward(), plan);
    const double floor = floor_seconds(work, peak);
    const bool by_memory = work.bytes / peak.bandwidth > work.flops / peak.flops;
    if (options.common.json) {
      json.push_back({{"problem", named.line},
                      {"canonical", to_string(named.problem)},
                      {"choice", choice},
                      {"plan", json_of(plan)},
                      {"flops", work.flops},
                      {"bytes", work.bytes},
                      {"floor_seconds", floor}});
      continue;
    }
    fmt::print("{}\n", paint(Colour::bold, to_string(named.problem)));
    fmt::print("choice: {}\n{}\n", choice, to_string(plan));
    fmt::print("floor: {}, limited by {} ({:.3g} GFLOP at {:.1f} GFLOP/s, {} at {:.1f} GB/s)\n\n",
               show_seconds(floor), by_memory ? "memory" : "arithmetic", work.flops / 1e9,
               peak.flops / 1e9, show_bytes(work.bytes), peak.bandwidth / 1e9);
  }
  if (options.common.json) {
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
  }
  return kSuccess;
}

}  // namespace

void add_explain(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "explain", "Show what runs a problem, its plan, and the least time it can take");
  options->problems.add_to(*command);
  options->common.add_to(*command);
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace jfa::tool
