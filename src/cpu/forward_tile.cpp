// Forward of one tile of query rows in one head: online softmax (or an elementwise activation) over
// blocks of keys.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/forward_tile.cpp"
#include <hwy/foreach_target.h>

#include "cpu/score-inl.h"
#include "cpu/tasks.hpp"

HWY_BEFORE_NAMESPACE();
namespace jfa::cpu::HWY_NAMESPACE {
namespace {

using detail::SequenceView;

// Loads the keys and values of one block.
void load_block(const Rows& keys, const Rows& values, std::int64_t begin, std::int64_t count,
                const ForwardScratch& scratch) {
  const std::int64_t width = keys.width;
  const std::int64_t panel_size = round_up(width, 4) * kPanel;
  const bool direct = keys.dtype == DType::float32 && width % 4 == 0;
  for (std::int64_t j = 0; j < count; j += kPanel) {
    const std::int64_t here = std::min(kPanel, count - j);
    float* panel = scratch.k_panels + j / kPanel * panel_size;
    if (direct) {
      pack_transposed(element<float>(keys, begin + j), keys.row_stride, here, width, panel_size,
                      panel, count - j);
    } else {
      load_rows(keys, begin + j, here, round_up(width, kLanes), scratch.k, scratch.q_stride);
      pack_transposed(scratch.k, scratch.q_stride, here, width, panel_size, panel);
    }
  }
  load_rows(values, begin, count, round_up(values.width, kLanes), scratch.v, scratch.v_stride);
}

// Rows whose scores are in L1 from their products to their product with V.
constexpr std::int64_t kScoreRows = 24;

// S → P for the rows [begin, end) of the tile, whose first row is `first_row` of the sequence.
void apply_scores(const Scores& scores, std::int64_t first_row, std::int64_t begin,
                  std::int64_t end, std::int64_t key, bool partial, const ForwardScratch& scratch) {
  const bool softmax = scores.activation == Activation::softmax;
  for (std::int64_t i = begin; i < end; ++i) {
    const KeyRange group = scratch.groups[i / kBlockRows];
    if (group.begin == group.end) {
      scratch.factor[i] = 1;
      continue;
    }
    const KeyRange range = whole_vectors(group);
    float* row = scratch.s + (i - begin) * scratch.s_stride;
    if (scores.adjusted) adjust_row(scores, first_row + i, key, group.begin, group.end, row);
    if (!softmax) continue;
    if (partial || range.end != group.end) {
      fill_hidden(row, range.begin, range.end, scratch.ranges[i],
                  -std::numeric_limits<float>::infinity());
    }
    softmax_row(scores.late_scale, range, row, scratch.maximum[i], scratch.sum[i],
                scratch.factor[i]);
  }
  if (softmax) return;
  with_activation(scores.activation, [&](auto activation) HWY_ATTR {
    const Floats f32;
    const FloatVector scale = hn::Set(f32, scores.late_scale);
    for (std::int64_t i = begin; i < end; ++i) {
      const KeyRange range = whole_vectors(scratch.groups[i / kBlockRows]);
      float* row = scratch.s + (i - begin) * scratch.s_stride;
      FloatVector unused = hn::Zero(f32);
      for (std::int64_t j = range.begin; j < range.end; j += kLanes) {
        const FloatVector s = hn::Mul(hn::LoadU(f32, row + j), scale);
        hn::StoreU(activation_of<activation(), false>(s, scores.leaky_slope, unused), f32, row + j);
      }
      if (partial) fill_hidden(row, range.begin, range.end, scratch.ranges[i], 0);
    }
  });
}

// out = f·out + P·V of the rows [begin, end), for the keys that each group of rows sees.
template <Update kUpdate>
void value_products(std::int64_t begin, std::int64_t end, std::int64_t columns,
                    const ForwardScratch& scratch) {
  for (std::int64_t j = 0; j < columns; j += kPanel) {
    const std::int64_t vectors = columns - j > kLanes ? 2 : 1;
    for (std::int64_t i = begin; i < end; i += kBlockRows) {
      const KeyRange range = scratch.groups[i / kBlockRows];
      if (range.begin == range.end) continue;
      product_rows<kUpdate, Order::rows>(
          std::min<std::int64_t>(kBlockRows, end - i), vectors, range.end - range.begin,
          scratch.s + (i - begin) * scratch.s_stride + range.begin, scratch.s_stride,
          scratch.v + range.begin * scratch.v_stride + j, scratch.v_stride,
          scratch.out + i * scratch.v_stride + j, scratch.v_stride, scratch.factor + i);
    }
  }
}

// The row's visible keys, and the smallest range that holds them all.
KeyRange64 find_intervals(const Context& context, const SequenceView& sequence,
                          std::int64_t first_row, std::int64_t rows,
                          kernels::RowIntervals* intervals) {
  KeyRange64 hull{sequence.k_length, 0};
  for (std::int64_t i = 0; i < rows; ++i) {
    intervals[i] = context.visible(sequence, first_row + i);
    if (kernels::visible_keys(intervals[i]) == 0) continue;
    hull.begin = std::min<std::int64_t>(hull.begin, intervals[i].lo0);
    hull.end = std::max<std::int64_t>({hull.end, intervals[i].hi0, intervals[i].hi1});
  }
  return hull;
}

void store_results(const Context& context, const ForwardArgs& args, const SequenceView& sequence,
                   std::int64_t head, std::int64_t first_row, std::int64_t rows,
                   const ForwardScratch& scratch) {
  const bool softmax = args.activation == Activation::softmax;
  const Rows out = rows_in_head(args.out, detail::out_layout(args.q_sequences.layout),
                                sequence.index, sequence.q_first, head);
  float* lse = nullptr;
  if (softmax && args.lse.present()) {
    lse = static_cast<float*>(args.lse.data) + head * args.lse.strides[0] +
          (sequence.out_row + first_row) * args.lse.strides[1];
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    double factor = context.out_scale_of(sequence, first_row + i);
    if (softmax) {
      const double sum = scratch.sum[i];
      factor = sum == 0 ? 0 : factor / sum;
      if (lse != nullptr) {
        lse[i * args.lse.strides[1]] =
            sum == 0
                ? -std::numeric_limits<float>::infinity()
                : static_cast<float>(0.6931471805599453 *
                                     (static_cast<double>(scratch.maximum[i]) + std::log2(sum)));
      }
    }
    store_row(out, first_row + i, scratch.out + i * scratch.v_stride, static_cast<float>(factor));
  }
}

void forward_rows(const Context& context, const ForwardArgs& args, const SequenceView& sequence,
                  std::int64_t head, std::int64_t first_row, std::int64_t rows,
                  const ForwardScratch& scratch) {
  const Layout kv = args.kv_sequences.layout;
  const std::int64_t kv_head = head / context.group;
  const Rows q =
      rows_in_head(args.q, args.q_sequences.layout, sequence.index, sequence.q_first, head);
  const Rows k = rows_in_head(args.k, kv, sequence.kv_index, sequence.k_first, kv_head);
  const Rows v = rows_in_head(args.v, kv, sequence.kv_index, sequence.k_first, kv_head);
  const Scores scores = context.scores_of(sequence, head);
  const bool softmax = scores.activation == Activation::softmax;
  const std::int64_t columns = round_up(v.width, kLanes);

  load_rows(q, first_row, rows, round_up(q.width, kLanes), scratch.q, scratch.q_stride);
  for (std::int64_t i = 0; i < rows; ++i) {
    std::fill_n(scratch.out + i * scratch.v_stride, columns, 0.0F);
    scratch.maximum[i] = -std::numeric_limits<float>::infinity();
    scratch.sum[i] = 0;
  }
  const bool masked = sequence.mask.kind != kernels::MaskParameters::full;
  KeyRange64 hull{0, sequence.k_length};
  if (masked) hull = find_intervals(context, sequence, first_row, rows, scratch.intervals);
  // Blocks begin at multiples of their size, so that a row's bits do not depend on its tile.
  hull.begin -= hull.begin % scratch.blocking.keys;

  for (std::int64_t key = hull.begin; key < hull.end; key += scratch.blocking.keys) {
    const std::int64_t keys = std::min(scratch.blocking.keys, hull.end - key);
    auto visibility = kernels::Visibility::full;
    if (masked) {
      visibility = mask_block(scratch.intervals, rows, key, keys, scratch.ranges, scratch.groups);
    } else {
      full_block(rows, keys, scratch.ranges, scratch.groups);
    }
    if (visibility == kernels::Visibility::skipped) continue;
    load_block(k, v, key, keys, scratch);
    RowPrefetcher nothing;  // tiles are large: the next block is loaded in 2 % of the time
    for (std::int64_t i = 0; i < rows; i += kScoreRows) {
      const std::int64_t end = std::min(rows, i + kScoreRows);
      score_products(end - i, keys, q.width, scratch.q + i * scratch.q_stride, scratch.q_stride,
                     scratch.k_panels, round_up(q.width, 4) * kPanel,
                     scratch.groups + i / kBlockRows, scratch.s, scratch.s_stride, nothing);
      apply_scores(scores, first_row, i, end, key, visibility == kernels::Visibility::partial,
                   scratch);
      if (softmax) {
        value_products<Update::rescale>(i, end, columns, scratch);
      } else {
        value_products<Update::add>(i, end, columns, scratch);
      }
    }
  }
  store_results(context, args, sequence, head, first_row, rows, scratch);
}

}  // namespace

void forward_tile(const Context& context, const ForwardArgs& args, const kernels::Tile& tile,
                  std::int64_t head, const ForwardScratch& scratch) {
  if (tile.sequences == 1) {
    forward_rows(context, args,
                 context.call.sequences[static_cast<std::size_t>(tile.first_sequence)], head,
                 tile.first_row, tile.rows, scratch);
    return;
  }
  for (std::int64_t n = 0; n < tile.sequences; ++n) {
    const SequenceView& sequence =
        context.call.sequences[static_cast<std::size_t>(tile.first_sequence + n)];
    if (sequence.q_length == 0 || sequence.k_length == 0) continue;
    forward_rows(context, args, sequence, head, 0, sequence.q_length, scratch);
  }
}

}  // namespace jfa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace jfa::cpu {

HWY_EXPORT(forward_tile);

void run_forward_tile(const Context& context, const ForwardArgs& args, const kernels::Tile& tile,
                      std::int64_t head, const ForwardScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(forward_tile)(context, args, tile, head, scratch);
}

}  // namespace jfa::cpu
#endif
