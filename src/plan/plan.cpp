// make_plan: resolves the arguments and builds the work list with the code in kernels/plan.
#include "jfa/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "cpu/parallel.hpp"
#include "gpu/engine.hpp"
#include "jfa/attention.hpp"
#include "jfa/error.hpp"
#include "plan/plan_data.hpp"

namespace jfa {
namespace detail {
namespace {

// The view of a call that kernels/plan works on.
struct CallBatch {
  const Call& call;
  const Tensor& mask_intervals;

  const SequenceView& at(long long b) const { return call.sequences[static_cast<std::size_t>(b)]; }
  long long batch() const { return static_cast<long long>(call.sequences.size()); }
  long long q_length(long long b) const { return at(b).q_length; }
  long long k_length(long long b) const { return at(b).k_length; }
  long long row_follows(long long b) const {
    return b > 0 && at(b).out_row == at(b - 1).out_row + at(b - 1).q_length ? 1 : 0;
  }
  kernels::RowIntervals intervals(long long b, long long row) const {
    return visible_intervals(at(b), mask_intervals, row);
  }
};

void add_tiles(PlanData& plan) {
  std::vector<kernels::Tile> tiles;
  kernels::for_each_tile(CallBatch{plan.call, plan.mask_intervals}, plan.rules,
                         [&](const kernels::Tile& tile) { tiles.push_back(tile); });
  std::vector<long long> order(tiles.size());
  std::vector<long long> starts(kernels::kWorkClasses + 1);
  kernels::longest_first(tiles.data(), static_cast<long long>(tiles.size()), order.data(),
                         starts.data());
  plan.tiles.reserve(tiles.size());
  for (const long long index : order) plan.tiles.push_back(tiles[static_cast<std::size_t>(index)]);
}

void add_key_groups(PlanData& plan) {
  const std::vector<SequenceView>& sequences = plan.call.sequences;
  const CallBatch batch{plan.call, plan.mask_intervals};
  for (const SequenceView& sequence : sequences) {
    if (kernels::has_work(batch, sequence.index)) plan.members.push_back(sequence.index);
  }
  const auto kv_index = [&](std::int64_t b) {
    return sequences[static_cast<std::size_t>(b)].kv_index;
  };
  std::stable_sort(plan.members.begin(), plan.members.end(),
                   [&](std::int64_t a, std::int64_t b) { return kv_index(a) < kv_index(b); });
  for (std::size_t i = 0; i < plan.members.size(); ++i) {
    const SequenceView& sequence = batch.at(plan.members[i]);
    if (plan.groups.empty() || plan.groups.back().kv_index != sequence.kv_index) {
      plan.groups.push_back({sequence.kv_index, sequence.k_first, sequence.k_length,
                             static_cast<std::int64_t>(i), 0, 0});
    }
    ++plan.groups.back().count;
    plan.groups.back().work += kernels::tile_work(batch, sequence.index, 0, sequence.q_length);
  }
  std::stable_sort(plan.groups.begin(), plan.groups.end(), [](const auto& a, const auto& b) {
    return kernels::work_class(a.work) < kernels::work_class(b.work);
  });
}

bool same_mask(const kernels::MaskParameters& a, const kernels::MaskParameters& b) {
  return a.kind == b.kind && a.bottom_right == b.bottom_right && a.hstu_causal == b.hstu_causal &&
         a.left == b.left && a.right == b.right && a.contextual == b.contextual &&
         a.targets == b.targets && a.target_group == b.target_group &&
         a.max_attention_length == b.max_attention_length &&
         a.min_full_attention == b.min_full_attention && a.prefix == b.prefix &&
         a.local == b.local && a.block == b.block;
}

}  // namespace

kernels::PlanRules cpu_plan_rules(const Call& call, int threads) {
  const std::int64_t tasks = 8 * std::int64_t{threads};  // wanted at least
  constexpr std::int64_t kLeastRows = 48;
  // Sequences share a tile while that saves more than the start of a task costs.
  constexpr std::int64_t kPackRows = 192;
  constexpr double kPackPairs = 4096;
  std::int64_t rows = 0;
  double pairs = 0;
  for (const SequenceView& sequence : call.sequences) {
    rows += sequence.q_length;
    pairs += static_cast<double>(sequence.q_length) * static_cast<double>(sequence.k_length);
  }
  const double mean_keys =
      std::max(1.0, pairs / static_cast<double>(std::max<std::int64_t>(1, rows)));
  const auto pack =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(kPackPairs / mean_keys), 1, kPackRows);
  const std::int64_t tile = std::clamp(rows / tasks * call.heads, kLeastRows, kCpuTileRows);
  return {.tile_rows = tile, .pack_rows = std::min(tile, pack), .pack_contiguous = 0};
}

kernels::RowIntervals visible_intervals(const SequenceView& sequence, const Tensor& mask_intervals,
                                        std::int64_t row) {
  if (sequence.mask.kind != kernels::MaskParameters::intervals) {
    return kernels::row_intervals(sequence.mask, row, sequence.q_length, sequence.k_length);
  }
  const std::int64_t stride = mask_intervals.strides[1];
  const auto* bounds = static_cast<const std::int32_t*>(mask_intervals.data) +
                       (sequence.out_row + row) * mask_intervals.strides[0];
  const bool two = mask_intervals.shape[1] == 4;
  return kernels::normalized(bounds[0], bounds[stride], two ? bounds[2 * stride] : 0,
                             two ? bounds[3 * stride] : 0, sequence.k_length);
}

PlanData plan_call(const AttentionArgs& args, Call call, const kernels::PlanRules& rules) {
  PlanData plan;
  plan.call = std::move(call);
  plan.mask_intervals = args.mask.intervals;
  plan.rules = rules;
  add_tiles(plan);
  add_key_groups(plan);
  return plan;
}

void check_plan_matches(const PlanData& plan, const Call& call) {
  const auto refuse = [](const std::string& what) {
    throw InvalidArgument(
        fmt::format("plan: made for {}; make a new plan for these arguments", what));
  };
  const Call& planned = plan.call;
  if (planned.batch != call.batch) {
    refuse(fmt::format("a batch of {}, this call has {}", planned.batch, call.batch));
  }
  for (std::size_t b = 0; b < call.sequences.size(); ++b) {
    const SequenceView& a = planned.sequences[b];
    const SequenceView& c = call.sequences[b];
    if (a.q_length != c.q_length || a.q_first != c.q_first || a.out_row != c.out_row) {
      refuse(fmt::format("other query offsets: sequence {} had rows {} … {}, here {} … {}", b,
                         a.q_first, a.q_first + a.q_length, c.q_first, c.q_first + c.q_length));
    }
    if (a.k_length != c.k_length || a.k_first != c.k_first || a.kv_index != c.kv_index) {
      refuse(fmt::format("other key offsets: sequence {} had keys {} … {}, here {} … {}", b,
                         a.k_first, a.k_first + a.k_length, c.k_first, c.k_first + c.k_length));
    }
    if (!same_mask(a.mask, c.mask)) refuse(fmt::format("another mask of sequence {}", b));
  }
}

}  // namespace detail

Plan make_plan(const AttentionArgs& args, const Execution& execution) {
  if (execution.device.kind != DeviceKind::cpu) return gpu::make_plan(args, execution);
  detail::Call call = detail::validate_inputs(args);
  const kernels::PlanRules rules =
      detail::cpu_plan_rules(call, cpu::thread_count(execution.threads));
  return Plan(
      std::make_shared<const detail::PlanData>(detail::plan_call(args, std::move(call), rules)));
}

Plan make_plan(const AttentionArgs& args) {
  return make_plan(args, Execution{});
}

std::size_t plan_bytes(const AttentionArgs& args, const Execution& execution) {
  if (execution.device.kind != DeviceKind::cpu) return gpu::plan_bytes(args, execution);
  detail::validate_inputs(args);
  return 0;
}

}  // namespace jfa
