// Forward of one tile of query rows in one head: online softmax (or an elementwise activation) over
// blocks of keys.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/forward_tile.cpp"
#include <hwy/foreach_target.h>

#include "cpu/few_rows-inl.h"
#include "cpu/tasks.hpp"
#include "cpu/tile_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace jfa::cpu::HWY_NAMESPACE {
namespace {

using detail::SequenceView;

// The two products of a forward block in float32, whatever the inputs are.
class FloatProducts {
 public:
  // Rows whose scores are in L1 from their products to their product with V.
  static constexpr std::int64_t kRows = 24;

  FloatProducts(const Rows& k, const Rows& v, const ForwardScratch& scratch)
      : k_(k), v_(v), scratch_(scratch) {}

  void load_queries(const Rows& q, std::int64_t first, std::int64_t rows) const {
    load_rows(q, first, rows, round_up(q.width, kLanes), scratch_.q, scratch_.q_stride);
  }

  void load_block(std::int64_t begin, std::int64_t count) const {
    load_panels(k_, begin, count, scratch_.k, scratch_.q_stride, scratch_.k_panels);
    load_rows(v_, begin, count, round_up(v_.width, kLanes), scratch_.v, scratch_.v_stride);
  }

  // Scores of the rows [begin, end) of the tile to scratch.s.
  void scores(std::int64_t begin, std::int64_t end, std::int64_t keys) const {
    RowPrefetcher nothing;  // tiles are large: the next block is loaded in 2 % of the time
    score_products(end - begin, keys, k_.width, scratch_.q + begin * scratch_.q_stride,
                   scratch_.q_stride, scratch_.k_panels, panel_size(),
                   scratch_.groups + begin / kBlockRows, scratch_.s, scratch_.s_stride, nothing);
  }

  // out = f·out + P·V of the rows [begin, end), for the keys that each group of rows sees.
  void values(std::int64_t begin, std::int64_t end, bool rescale) const {
    if (rescale) {
      values<Update::rescale>(begin, end);
    } else {
      values<Update::add>(begin, end);
    }
  }

 private:
  std::int64_t panel_size() const { return round_up(k_.width, 4) * kPanel; }

  template <Update kUpdate>
  void values(std::int64_t begin, std::int64_t end) const {
    const ForwardScratch& scratch = scratch_;
    const std::int64_t columns = round_up(v_.width, kLanes);
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

  const Rows k_;
  const Rows v_;
  const ForwardScratch& scratch_;
};

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
  for (std::int64_t i = begin; i < end; ++i) {
    const KeyRange range = whole_vectors(scratch.groups[i / kBlockRows]);
    float* row = scratch.s + (i - begin) * scratch.s_stride;
    activate_row(scores, range, row);
    if (partial) fill_hidden(row, range.begin, range.end, scratch.ranges[i], 0);
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

// Rows of one head; row i is row `scratch_row` + i of the scratch.
void store_results(const Context& context, const ForwardArgs& args, const SequenceView& sequence,
                   std::int64_t head, std::int64_t first_row, std::int64_t rows,
                   std::int64_t scratch_row, const ForwardScratch& scratch) {
  const bool softmax = args.activation == Activation::softmax;
  const Rows out = rows_in_head(args.out, detail::out_layout(args.q_sequences.layout),
                                sequence.index, sequence.q_first, head);
  float* lse = nullptr;
  if (softmax && args.lse.present()) {
    lse = static_cast<float*>(args.lse.data) + head * args.lse.strides[0] +
          (sequence.out_row + first_row) * args.lse.strides[1];
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t from = scratch_row + i;
    double factor = context.out_scale_of(sequence, first_row + i);
    if (softmax) {
      const double sum = scratch.sum[from];
      factor = sum == 0 ? 0 : factor / sum;
      if (lse != nullptr) {
        lse[i * args.lse.strides[1]] =
            sum == 0
                ? -std::numeric_limits<float>::infinity()
                : static_cast<float>(0.6931471805599453 *
                                     (static_cast<double>(scratch.maximum[from]) + std::log2(sum)));
      }
    }
    store_row(out, first_row + i, scratch.out + from * scratch.v_stride,
              static_cast<float>(factor));
  }
}

// Rows [first_row, first_row + rows) of one sequence in one head.
template <typename Products>
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

  const Products products(k, v, scratch);
  products.load_queries(q, first_row, rows);
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
    products.load_block(key, keys);
    for (std::int64_t i = 0; i < rows; i += Products::kRows) {
      const std::int64_t end = std::min(rows, i + Products::kRows);
      products.scores(i, end, keys);
      apply_scores(scores, first_row, i, end, key, visibility == kernels::Visibility::partial,
                   scratch);
      products.values(i, end, softmax);
    }
  }
  store_results(context, args, sequence, head, first_row, rows, 0, scratch);
}

// S → P of a block in lanes.
void apply_lane_scores(const Scores& scores, const LaneSet& set, std::int64_t keys, bool partial,
                       const ForwardScratch& scratch) {
  if (scores.activation == Activation::softmax) {
    if (partial) {
      fill_hidden_lanes(set, keys, scratch.ranges, -std::numeric_limits<float>::infinity(),
                        scratch.s);
    }
    softmax_lanes(set, keys, scores.late_scale, scratch.s, scratch.maximum + set.first,
                  scratch.sum + set.first, scratch.factor + set.first);
    return;
  }
  activate_row(scores, {0, static_cast<int>(keys * set.stride())}, scratch.s);
  if (partial) fill_hidden_lanes(set, keys, scratch.ranges, 0, scratch.s);
}

// S → P of a block whose scores are dot products: rows of kLaneKeys.
void apply_dot_scores(const Scores& scores, const LaneSet& set, std::int64_t keys, bool partial,
                      const ForwardScratch& scratch) {
  const bool softmax = scores.activation == Activation::softmax;
  const float hidden = softmax ? -std::numeric_limits<float>::infinity() : 0;
  const KeyRange range = whole_vectors({0, static_cast<int>(keys)});
  for (std::int64_t n = 0; n < set.count(); ++n) {
    float* row = scratch.s + n * kLaneKeys;
    if (!softmax) activate_row(scores, range, row);
    std::fill(row + keys, row + range.end, hidden);
    if (partial) fill_hidden(row, 0, range.end, scratch.ranges[n % set.rows], hidden);
    if (!softmax) continue;
    const std::int64_t lane = set.first + n;
    softmax_row(scores.late_scale, range, row, scratch.maximum[lane], scratch.sum[lane],
                scratch.factor[lane]);
  }
}

// A block of keys and values of one key head meets the rows of a set.
void forward_lane_block(const Scores& scores, const LaneSet& set, const Rows& k, const Rows& v,
                        std::int64_t key, std::int64_t keys, bool partial,
                        RowPrefetcher& prefetcher, const ForwardScratch& scratch) {
  const bool dots = takes_dots(set, k.width);
  const auto products = dots ? dot_products : lane_products;
  products(k, key, keys, set, scratch.q_lanes + set.first * k.width, scratch.k, scratch.q_stride,
           scratch.s, prefetcher);
  const auto apply = dots ? apply_dot_scores : apply_lane_scores;
  apply(scores, set, keys, partial, scratch);
  const std::int64_t columns = round_up(v.width, kLanes);
  const float* values = scratch.v;
  std::int64_t values_stride = scratch.v_stride;
  if (v.dtype == DType::float32 && v.width == columns) {
    values = element<float>(v, key);
    values_stride = v.row_stride;
  } else {
    load_rows(v, key, keys, columns, scratch.v, scratch.v_stride);
  }
  const auto add = dots ? add_dot_products<Update::rescale> : add_lane_products<Update::rescale>;
  add(set, keys, columns, scratch.s, values, values_stride,
      scratch.out + set.first * scratch.v_stride, scratch.v_stride, scratch.factor + set.first);
}

// All rows of a sequence with few of them, in the heads of `sets`. A block of keys is small enough
// for L2 in all these heads, so that memory is read as it lies.
void forward_lanes(const Context& context, const ForwardArgs& args, const SequenceView& sequence,
                   const LaneSets& sets, const ForwardScratch& scratch) {
  const Layout kv = args.kv_sequences.layout;
  const std::int64_t lanes = sets.back().first + sets.back().stride();
  std::fill_n(scratch.q_lanes, context.call.dim * lanes, 0.0F);
  std::fill_n(scratch.maximum, lanes, -std::numeric_limits<float>::infinity());
  std::fill_n(scratch.sum, lanes, 0.0F);
  std::fill_n(scratch.factor, lanes, 1.0F);
  std::fill_n(scratch.out, lanes * scratch.v_stride, 0.0F);
  for (const LaneSet& set : sets) {
    for (std::int64_t n = 0; n < set.count(); ++n) {
      const Rows q = rows_in_head(args.q, args.q_sequences.layout, sequence.index, sequence.q_first,
                                  set.head + n / set.rows);
      float* lanes_of_set = scratch.q_lanes + set.first * q.width;
      if (takes_dots(set, q.width)) {
        const std::int64_t padded = round_up(q.width, kLanes);
        load_rows(q, n % set.rows, 1, padded, lanes_of_set + n * padded, padded);
      } else {
        load_lane(q, n % set.rows, n, set.stride(), scratch.k, lanes_of_set);
      }
    }
  }
  const bool masked = sequence.mask.kind != kernels::MaskParameters::full;
  KeyRange64 hull{0, sequence.k_length};
  if (masked) hull = find_intervals(context, sequence, 0, sequence.q_length, scratch.intervals);

  const std::int64_t step = std::min(kLaneKeys, scratch.blocking.keys);
  for (std::int64_t key = hull.begin; key < hull.end; key += step) {
    const std::int64_t keys = std::min(step, hull.end - key);
    auto visibility = kernels::Visibility::full;
    if (masked) {
      visibility = mask_block(scratch.intervals, sequence.q_length, key, keys, scratch.ranges,
                              scratch.groups);
    }
    if (visibility == kernels::Visibility::skipped) continue;
    RowPrefetcher prefetcher;
    for (const Tensor* tensor : {&args.k, &args.v}) {
      prefetcher.add(
          rows_in_heads(*tensor, kv, sequence.kv_index, sequence.k_first,
                        sets.front().head / context.group, sets.back().head / context.group + 1),
          key + keys, std::min(step, hull.end - key - keys));
    }
    prefetcher.plan(lane_blocks(keys) * sets.size());
    for (const LaneSet& set : sets) {
      const std::int64_t kv_head = set.head / context.group;
      forward_lane_block(context.scores_of(sequence, set.head), set,
                         rows_in_head(args.k, kv, sequence.kv_index, sequence.k_first, kv_head),
                         rows_in_head(args.v, kv, sequence.kv_index, sequence.k_first, kv_head),
                         key, keys, visibility == kernels::Visibility::partial, prefetcher,
                         scratch);
    }
  }
  for (const LaneSet& set : sets) {
    for (std::int64_t h = 0; h < set.heads; ++h) {
      store_results(context, args, sequence, set.head + h, 0, set.rows, set.first + h * set.rows,
                    scratch);
    }
  }
}

// Rows of one sequence that a tile holds in `head`, or, with few rows, in all heads of a task.
void forward_sequence(const Context& context, const ForwardArgs& args, const SequenceView& sequence,
                      std::int64_t head, std::int64_t first_row, std::int64_t rows,
                      const ForwardScratch& scratch) {
  if (context.adjusted || sequence.q_length > kPanel) {
    const auto run =
        TileProducts::can(context) ? forward_rows<TileProducts> : forward_rows<FloatProducts>;
    run(context, args, sequence, head, first_row, rows, scratch);
    return;
  }
  const LaneSets sets = LaneSets::of_task(sequence.q_length, context.group, context.call.heads,
                                          head, context.lane_sets);
  if (!sets.empty()) forward_lanes(context, args, sequence, sets, scratch);
}

}  // namespace

void forward_tile(const Context& context, const ForwardArgs& args, const kernels::Tile& tile,
                  std::int64_t head, const ForwardScratch& scratch) {
  if (tile.sequences == 1) {
    forward_sequence(context, args,
                     context.call.sequences[static_cast<std::size_t>(tile.first_sequence)], head,
                     tile.first_row, tile.rows, scratch);
    return;
  }
  for (std::int64_t n = 0; n < tile.sequences; ++n) {
    const SequenceView& sequence =
        context.call.sequences[static_cast<std::size_t>(tile.first_sequence + n)];
    if (sequence.q_length == 0 || sequence.k_length == 0) continue;
    forward_sequence(context, args, sequence, head, 0, sequence.q_length, scratch);
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
