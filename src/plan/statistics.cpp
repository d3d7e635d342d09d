// Numbers that describe a plan to a person.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "gpu/engine.hpp"
#include "jfa/plan.hpp"
#include "plan/plan_data.hpp"

namespace jfa {
namespace {

// The CPU engine skips whole vectors of keys.
constexpr std::int64_t kCpuKeyBlock = 16;

void count_pairs(const detail::PlanData& plan, std::int64_t key_block, PlanStatistics& statistics) {
  const auto blocks_touched = [&](std::int64_t lo, std::int64_t hi) {
    return hi <= lo ? 0 : (hi + key_block - 1) / key_block - lo / key_block;
  };
  for (const detail::SequenceView& sequence : plan.call.sequences) {
    if (sequence.mask.kind == kernels::MaskParameters::full) {
      const double rows = static_cast<double>(sequence.q_length);
      statistics.visible_pairs += rows * static_cast<double>(sequence.k_length);
      statistics.computed_pairs +=
          rows * static_cast<double>(
                     std::min(sequence.k_length, blocks_touched(0, sequence.k_length) * key_block));
      continue;
    }
    for (std::int64_t row = 0; row < sequence.q_length; ++row) {
      const auto visible = detail::visible_intervals(sequence, plan.mask_intervals, row);
      statistics.visible_pairs += static_cast<double>(kernels::visible_keys(visible));
      const std::int64_t blocks =
          blocks_touched(visible.lo0, visible.hi0) + blocks_touched(visible.lo1, visible.hi1);
      statistics.computed_pairs +=
          static_cast<double>(std::min(sequence.k_length, blocks * key_block));
    }
  }
}

}  // namespace

PlanStatistics detail::count_statistics(const PlanData& plan, std::int64_t key_block) {
  PlanStatistics statistics;
  statistics.batch = plan.call.batch;
  statistics.tiles = static_cast<std::int64_t>(plan.tiles.size());
  statistics.tile_rows = plan.rules.tile_rows;
  std::int64_t longest_q = 0;
  std::int64_t longest_k = 0;
  for (const detail::SequenceView& sequence : plan.call.sequences) {
    statistics.query_rows += sequence.q_length;
    statistics.key_rows += sequence.k_length;
    if (sequence.q_length == 0 || sequence.k_length == 0) ++statistics.empty_sequences;
    longest_q = std::max(longest_q, sequence.q_length);
    longest_k = std::max(longest_k, sequence.k_length);
  }
  statistics.padded_pairs = static_cast<double>(statistics.batch) * static_cast<double>(longest_q) *
                            static_cast<double>(longest_k);
  double work = 0;
  double largest = 0;
  std::int64_t rows = 0;
  for (const kernels::Tile& tile : plan.tiles) {
    if (tile.sequences > 1) ++statistics.packed_tiles;
    rows += tile.rows;
    work += static_cast<double>(tile.work);
    largest = std::max(largest, static_cast<double>(tile.work));
  }
  if (statistics.tiles > 0) {
    statistics.row_fill =
        static_cast<double>(rows) / static_cast<double>(statistics.tiles * statistics.tile_rows);
    statistics.largest_tile_share = largest / work;
  }
  count_pairs(plan, key_block, statistics);
  return statistics;
}

PlanStatistics Plan::statistics() const {
  if (!valid()) return {};
  if (data_->device != nullptr) return gpu::statistics(*data_->device);
  return detail::count_statistics(*data_, kCpuKeyBlock);
}

std::string to_string(const PlanStatistics& statistics) {
  const auto share = [](double part, double whole) { return whole > 0 ? part / whole : 0.0; };
  return fmt::format(
      "sequences       {} ({} empty), {} query rows, {} key rows\n"
      "tiles           {} of {} rows, {} with several sequences, {:.1f} % filled\n"
      "visible pairs   {:.4g}, {:.1f} % of the pairs in computed blocks\n"
      "padded pairs    {:.4g}: a padded kernel computes {:.2f} times the visible pairs\n"
      "largest tile    {:.2f} % of all work\n",
      statistics.batch, statistics.empty_sequences, statistics.query_rows, statistics.key_rows,
      statistics.tiles, statistics.tile_rows, statistics.packed_tiles, 100 * statistics.row_fill,
      statistics.visible_pairs, 100 * share(statistics.visible_pairs, statistics.computed_pairs),
      statistics.padded_pairs, share(statistics.padded_pairs, statistics.visible_pairs),
      100 * statistics.largest_tile_share);
}

}  // namespace jfa
