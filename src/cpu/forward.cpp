// Schedules the tiles of a forward call.
#include <cstdint>
#include <limits>
#include <vector>

#include "cpu/engine.hpp"
#include "cpu/parallel.hpp"
#include "cpu/scratch.hpp"
#include "cpu/tasks.hpp"
#include "cpu/zero_rows.hpp"

namespace jfa::cpu {
namespace {

// Slack, holes and sequences without keys: out 0, lse −∞.
void write_rows_without_work(const ForwardArgs& args, const detail::Call& call,
                             const Execution& execution) {
  const bool jagged = args.q_sequences.layout == Layout::jagged;
  std::vector<RowSpan> rows;
  std::vector<RowSpan> lse_rows;
  for (const detail::SequenceView& sequence : call.sequences) {
    if (sequence.k_length == 0) continue;
    rows.push_back({jagged ? 0 : sequence.index, sequence.q_first, sequence.q_length});
    lse_rows.push_back({0, sequence.out_row, sequence.q_length});
  }
  zero_rows_outside(args.out, detail::out_layout(args.q_sequences.layout), std::move(rows),
                    execution);
  if (args.lse.present() && args.activation == Activation::softmax) {
    fill_lse_outside(args.lse, std::move(lse_rows), -std::numeric_limits<float>::infinity());
  }
}

}  // namespace

std::size_t forward_scratch_bytes(const detail::Call& call, const Execution& execution) {
  const std::size_t each = ForwardScratch(call, forward_blocking(call), nullptr).bytes;
  const int workers = affordable_workers(thread_count(execution.threads), each, 64);
  return each * static_cast<std::size_t>(workers) + 64;
}

void forward(const ForwardArgs& args, const detail::Call& call, const detail::PlanData& plan,
             const Execution& execution) {
  const Blocking blocking = forward_blocking(call);
  const std::size_t each = ForwardScratch(call, blocking, nullptr).bytes;
  const auto tasks = static_cast<std::int64_t>(plan.tiles.size()) * call.heads;
  const int threads = thread_count(execution.threads);
  write_rows_without_work(args, call, execution);
  if (tasks == 0) return;

  const int workers =
      static_cast<int>(std::min<std::int64_t>(affordable_workers(threads, each, 64), tasks));
  const Workspace workspace(execution, each * static_cast<std::size_t>(workers));
  Context context = make_context(args, call, plan);
  const bool many = static_cast<std::int64_t>(plan.tiles.size()) >= 4 * std::int64_t{threads};
  context.lane_sets = many ? kMostLaneSets : 1;
  run_tasks(execution, tasks, workers, [&](std::int64_t index, int worker) {
    const ForwardScratch scratch(call, blocking,
                                 workspace.at(each * static_cast<std::size_t>(worker)));
    run_forward_tile(context, args, plan.tiles[static_cast<std::size_t>(index / call.heads)],
                     index % call.heads, scratch);
  });
}

}  // namespace jfa::cpu
