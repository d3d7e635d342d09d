// What tasks read: rows of tensors, scores of a sequence and head, sizes of tiles and scratch.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "api/scalar.hpp"
#include "cpu/engine.hpp"

namespace jfa::cpu {

using detail::Call;
using detail::SequenceView;

float Rows::at(std::int64_t row, std::int64_t column) const {
  Tensor view;
  view.data = const_cast<void*>(data);
  view.dtype = dtype;
  return static_cast<float>(detail::real_at(view, row * row_stride + column * column_stride));
}

Rows rows_in_head(const Tensor& tensor, Layout layout, std::int64_t index, std::int64_t first,
                  std::int64_t head) {
  const std::size_t axis = layout == Layout::dense ? 1 : 0;
  std::int64_t offset = first * tensor.strides[axis] + head * tensor.strides[axis + 1];
  if (layout == Layout::dense) offset += index * tensor.strides[0];
  const auto* base = static_cast<const std::byte*>(tensor.data);
  return {base == nullptr ? nullptr : base + offset * size_of(tensor.dtype), tensor.dtype,
          tensor.strides[axis], tensor.strides[axis + 2], tensor.shape[axis + 2]};
}

Rows rows_in_heads(const Tensor& tensor, Layout layout, std::int64_t index, std::int64_t first,
                   std::int64_t begin, std::int64_t end) {
  Rows rows = rows_in_head(tensor, layout, index, first, begin);
  const std::int64_t heads = end - begin;
  const std::int64_t stride = tensor.strides[layout == Layout::dense ? 2 : 1];
  if (heads > 1 && stride > 0 && stride < 2 * rows.width) rows.width += (heads - 1) * stride;
  return rows;
}

TimeBuckets::TimeBuckets(std::int64_t buckets, double time_scale) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const auto bucket = [&](std::uint64_t difference) {
    return std::floor(std::log(std::max(1.0, static_cast<double>(difference))) / time_scale);
  };
  first_difference_.push_back(0);
  for (std::int64_t b = 1; b < buckets && bucket(kMost) >= static_cast<double>(b); ++b) {
    std::uint64_t low = first_difference_.back();  // bucket(low) < b ≤ bucket(high)
    std::uint64_t high = kMost;
    if (bucket(low) >= static_cast<double>(b)) high = low;
    while (high > low + 1) {
      const std::uint64_t middle = low + (high - low) / 2;
      (bucket(middle) >= static_cast<double>(b) ? high : low) = middle;
    }
    first_difference_.push_back(high);
  }
  const auto find = [&](std::uint64_t difference) {
    const auto next =
        std::upper_bound(first_difference_.begin(), first_difference_.end(), difference);
    return static_cast<std::int64_t>(next - first_difference_.begin()) - 1;
  };
  for (int power = 0; power < 64; ++power) bucket_of_power_.push_back(find(1ULL << power));
  bucket_of_power_.push_back(find(kMost));
}

std::int64_t TimeBuckets::bucket_of(std::int64_t q_time, std::int64_t k_time) const {
  const auto q = static_cast<std::uint64_t>(q_time);
  const auto k = static_cast<std::uint64_t>(k_time);
  const std::uint64_t difference = std::max<std::uint64_t>(1, q_time > k_time ? q - k : k - q);
  const auto power = static_cast<std::size_t>(63 - std::countl_zero(difference));
  const auto begin = first_difference_.begin() + bucket_of_power_[power];
  const auto end = first_difference_.begin() + bucket_of_power_[power + 1] + 1;
  return std::upper_bound(begin, end, difference) - first_difference_.begin() - 1;
}

bool scores_adjusted(const AttentionArgs& args, const Call& call) {
  const Bias& bias = args.bias;
  return bias.dense.present() || bias.alibi_slopes.present() || bias.position_table.present() ||
         bias.time_table.present() || call.scale <= 0;
}

Context make_context(const AttentionArgs& args, const Call& call, const detail::PlanData& plan) {
  Context context{args, call, plan, {}, call.heads / call.kv_heads, scores_adjusted(args, call), 1};
  if (args.bias.time_table.present()) {
    context.buckets = TimeBuckets(args.bias.time_table.shape[1], args.bias.time_scale);
  }
  return context;
}

namespace {

// Row `head` of a table [heads | 1, n].
const float* table_row(const Tensor& table, std::int64_t head) {
  const std::int64_t row = table.shape[0] == 1 ? 0 : head;
  return static_cast<const float*>(table.data) + row * table.strides[0];
}

void add_time_table(const AttentionArgs& args, const SequenceView& sequence, std::int64_t head,
                    Scores& scores) {
  const auto first_time = [](const Tensor& times, const Tensor& rows, Layout layout,
                             std::int64_t index, std::int64_t first) {
    const std::int64_t row = layout == Layout::dense ? index * rows.shape[1] : first;
    return static_cast<const std::int64_t*>(times.data) + row * times.strides[0];
  };
  const Bias& bias = args.bias;
  scores.time_table = table_row(bias.time_table, head);
  scores.time_stride = bias.time_table.strides[1];
  scores.q_times = first_time(bias.q_timestamps, args.q, args.q_sequences.layout, sequence.index,
                              sequence.q_first);
  scores.k_times = first_time(bias.kv_timestamps, args.k, args.kv_sequences.layout,
                              sequence.kv_index, sequence.k_first);
  scores.q_time_stride = bias.q_timestamps.strides[0];
  scores.k_time_stride = bias.kv_timestamps.strides[0];
}

}  // namespace

Scores Context::scores_of(const SequenceView& sequence, std::int64_t head) const {
  Scores scores;
  const Bias& bias = args.bias;
  scores.activation = args.activation;
  scores.leaky_slope = static_cast<float>(args.leaky_slope);
  const double unit = args.activation == Activation::softmax ? 1.4426950408889634 : 1.0;
  scores.scale = static_cast<float>(call.scale);
  scores.shift = sequence.mask.bottom_right != 0 ? sequence.k_length - sequence.q_length : 0;
  scores.adjusted = adjusted;
  scores.late_scale = static_cast<float>(scores.adjusted ? unit : call.scale * unit);
  if (bias.dense.present()) {
    const Tensor& dense = bias.dense;
    const std::int64_t offset = (dense.shape[0] == 1 ? 0 : sequence.index * dense.strides[0]) +
                                (dense.shape[1] == 1 ? 0 : head * dense.strides[1]);
    scores.dense = {static_cast<const std::byte*>(dense.data) + offset * size_of(dense.dtype),
                    dense.dtype, dense.strides[2], dense.strides[3], dense.shape[3]};
  }
  if (bias.alibi_slopes.present()) {
    const Tensor& slopes = bias.alibi_slopes;
    const std::int64_t offset = slopes.rank == 1
                                    ? head * slopes.strides[0]
                                    : sequence.index * slopes.strides[0] + head * slopes.strides[1];
    scores.has_slope = true;
    scores.slope = static_cast<const float*>(slopes.data)[offset];
  }
  if (bias.position_table.present()) {
    scores.position_table = table_row(bias.position_table, head);
    scores.position_stride = bias.position_table.strides[1];
    scores.position_reach = bias.position_table.shape[1] / 2;
  }
  if (bias.time_table.present()) {
    add_time_table(args, sequence, head, scores);
    scores.buckets = &buckets;
  }
  return scores;
}

double Context::out_scale_of(const SequenceView& sequence, std::int64_t row) const {
  if (args.out_scale_kind != OutScale::per_token) return sequence.out_scale;
  return sequence.out_scale *
         static_cast<double>(static_cast<const float*>(
             args.out_scales.data)[(sequence.out_row + row) * args.out_scales.strides[0]]);
}

namespace {

// The largest value that the tile could need: short batches need no full tiles.
std::int64_t longest(const Call& call, std::int64_t SequenceView::*length) {
  std::int64_t most = 1;
  for (const SequenceView& sequence : call.sequences) most = std::max(most, sequence.*length);
  return most;
}

constexpr std::int64_t kMostScoreRows = 48;  // rows whose scores are in scratch at once
constexpr std::int64_t kPanelMost = 32;      // widest panel of any instruction set
constexpr std::int64_t kGroupLeast = 6;      // fewest rows of a register block

std::int64_t panels_size(std::int64_t keys, std::int64_t width) {
  return (keys + kPanelMost - 1) / kPanelMost * kPanelMost * ((width + 3) / 4 * 4);
}

}  // namespace

Blocking forward_blocking(const Call& call) {
  const std::int64_t width = std::max(call.dim, call.value_dim);
  const std::int64_t keys = width <= 64 ? 256 : width <= 128 ? 256 : 128;
  return {std::clamp((longest(call, &SequenceView::q_length) + 15) / 16 * 16,
                     kMostLaneSets * kMostLanes, detail::kCpuTileRows),
          std::min(keys, (longest(call, &SequenceView::k_length) + 31) / 32 * 32)};
}

ForwardScratch::ForwardScratch(const Call& call, const Blocking& sizes, void* block)
    : blocking(sizes),
      q_stride(padded_stride(call.dim)),
      v_stride(padded_stride(call.value_dim)),
      s_stride(padded_stride(blocking.keys)) {
  Carver carver(block);
  q = carver.take<float>(blocking.rows * q_stride);
  q_lanes = carver.take<float>(call.dim * kMostLaneSets * kMostLanes);
  k = carver.take<float>(kPanelMost * q_stride);
  k_panels = carver.take<float>(panels_size(blocking.keys, call.dim));
  v = carver.take<float>(blocking.keys * v_stride);
  s = carver.take<float>(std::max(kMostScoreRows * s_stride, kMostLanes * blocking.keys));
  out = carver.take<float>(blocking.rows * v_stride);
  maximum = carver.take<float>(blocking.rows);
  sum = carver.take<float>(blocking.rows);
  factor = carver.take<float>(blocking.rows);
  intervals = carver.take<kernels::RowIntervals>(blocking.rows);
  ranges = carver.take<RowRange>(blocking.rows);
  groups = carver.take<KeyRange>((blocking.rows + kGroupLeast - 1) / kGroupLeast);
  bytes = carver.used();
}

Blocking backward_blocking(const Call& call) {
  return {kMostBackwardLanes,
          std::min<std::int64_t>(192, (longest(call, &SequenceView::k_length) + 31) / 32 * 32)};
}

BackwardScratch::BackwardScratch(const Call& call, const Blocking& sizes, std::int64_t dq_rows,
                                 void* block)
    : blocking(sizes),
      q_stride(padded_stride(call.dim)),
      v_stride(padded_stride(call.value_dim)),
      s_stride(padded_stride(blocking.keys)) {
  Carver carver(block);
  k = carver.take<float>(std::max(blocking.keys, kPanelMost) * q_stride);
  k_panels = carver.take<float>(panels_size(blocking.keys, call.dim));
  v = carver.take<float>(kPanelMost * std::max(q_stride, v_stride));
  v_panels = carver.take<float>(panels_size(blocking.keys, call.value_dim));
  d_k = carver.take<float>(blocking.keys * q_stride);
  d_v = carver.take<float>(blocking.keys * v_stride);
  q = carver.take<float>(blocking.rows * q_stride);
  d_out = carver.take<float>(blocking.rows * v_stride);
  p = carver.take<float>(blocking.rows * s_stride);
  d_s = carver.take<float>(blocking.rows * s_stride);
  d_q = carver.take<float>(dq_rows * q_stride);
  q_lanes = carver.take<float>(kMostBackwardLanes * call.dim);
  d_out_lanes = carver.take<float>(kMostBackwardLanes * call.value_dim);
  row = carver.take<float>(std::max(q_stride, v_stride));
  tile_rows = carver.take<std::uint16_t>(kMostScoreRows * std::max(call.dim, call.value_dim));
  delta = carver.take<float>(blocking.rows);
  lse = carver.take<float>(blocking.rows);
  lse_rest = carver.take<float>(blocking.rows);
  intervals = carver.take<kernels::RowIntervals>(blocking.rows);
  ranges = carver.take<RowRange>(blocking.rows);
  groups = carver.take<KeyRange>((blocking.rows + kGroupLeast - 1) / kGroupLeast);
  bytes = carver.used();
}

}  // namespace jfa::cpu
