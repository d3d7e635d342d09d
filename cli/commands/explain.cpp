// jfa explain: what would run a problem, how its work is cut up, and how fast it could be.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "commands/commands.hpp"
#include "commands/problem_list.hpp"
#include "jfa/jfa.hpp"
#include "jfa/jit.hpp"
#include "measure/floor.hpp"
#include "measure/gpu_peak.hpp"
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

// What runs a problem, before its plan and floor are known.
struct Choice {
  std::string text;
  Json json;
};

// A problem's tensors on the device that plans are made on.
class Explained {
 public:
  Explained(const Problem& problem, const Execution& execution) : instance_(problem) {
    if (execution.device.kind != DeviceKind::cpu) copy_.emplace(instance_, execution.device);
  }
  const ForwardArgs& forward() const { return copy_ ? copy_->forward() : instance_.forward(); }
  const ProblemInstance& instance() const { return instance_; }

 private:
  ProblemInstance instance_;
  std::optional<DeviceInstance> copy_;
};

Choice cpu_choice(const MachinePeak& peak) {
  const std::string text = fmt::format("CPU engine, {}, {} threads", peak.target, peak.threads);
  return {"choice: " + text + '\n', text};
}

// The kernels of a call as machine code, whatever device asks: only that tells registers.
Choice kernel_choice(const ForwardArgs& args, const std::string& architecture) {
  const KernelChoice choice = choose_forward(args, architecture);
  Choice result{to_string(choice),
                {{"name", choice.name},
                 {"architecture", choice.architecture},
                 {"source", choice.source},
                 {"entry", choice.entry},
                 {"tile_rows", choice.tile_rows},
                 {"packed_heads", choice.packed_heads},
                 {"key_block", choice.key_block},
                 {"stages", choice.stages},
                 {"threads", choice.threads},
                 {"shared_bytes", choice.shared_bytes},
                 {"reasons", choice.reasons},
                 {"kernels", Json::array()}}};
  for (const jit::KernelRequest& request :
       kernel_requests(args, architecture, jit::ImageKind::cubin)) {
    const auto compiled = jit::default_store().get(request);
    const jit::KernelResources resources = compiled->resources.value_or(jit::KernelResources{});
    result.text += fmt::format("kernel          {}: {}\n", request.source, to_string(resources));
    result.json["kernels"].push_back(
        {{"source", request.source},
         {"entry", request.entry},
         {"registers", resources.registers},
         {"spilled_bytes", resources.spill_store_bytes + resources.spill_load_bytes},
         {"static_shared_bytes", resources.static_shared_bytes},
         {"barriers", resources.barriers}});
  }
  return result;
}

// "sm_90a" names the architecture alone: no GPU is needed, the PTX machine makes the plan.
bool names_architecture(const std::string& device) {
  return device.starts_with("sm_");
}

int run(Options options) {
  const std::vector<NamedProblem> problems = read_problems(options.problems);
  if (names_architecture(options.common.device)) {
    options.common.device = "emulated:" + options.common.device;
  }
  const Execution execution = options.common.execution();
  const bool on_cpu = execution.device.kind == DeviceKind::cpu;
  const DeviceInfo device = on_cpu ? DeviceInfo{} : device_info(execution.device);
  const MachinePeak peak = on_cpu ? measure_peak(execution.threads) : gpu_peak(device);
  Json json = Json::array();
  for (const NamedProblem& named : problems) {
    const Explained explained(named.problem, execution);
    const bool backward = named.problem.direction == Direction::backward;
    const Choice choice =
        on_cpu ? cpu_choice(peak) : kernel_choice(explained.forward(), device.architecture);
    const PlanStatistics plan = make_plan(explained.forward(), execution).statistics();
    const Work work = backward ? backward_work(explained.instance().backward(), plan)
                               : forward_work(explained.instance().forward(), plan);
    const double floor = floor_seconds(work, peak);
    const bool by_memory = work.bytes / peak.bandwidth > work.flops / peak.flops;
    if (options.common.json) {
      json.push_back({{"problem", named.line},
                      {"canonical", to_string(named.problem)},
                      {"choice", choice.json},
                      {"plan", json_of(plan)},
                      {"flops", work.flops},
                      {"bytes", work.bytes},
                      {"floor_seconds", floor}});
      continue;
    }
    fmt::print("{}\n", paint(Colour::bold, to_string(named.problem)));
    fmt::print("{}{}\n", choice.text, to_string(plan));
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
  command->get_option("--device")
      ->description(
          "cpu, cuda, cuda:N, emulated:ARCH, or an architecture such as sm_90a, which needs no "
          "GPU");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace jfa::tool
