// Backward of sequences with few query rows, in lanes as few_rows-inl.h has them: Sᵀ = K·Qᵀ and
// dPᵀ = V·dOᵀ from keys and values where they lie. A gradient of a key is a sum over lanes alone,
// so it is written once, to its place; a block of keys meets all heads, so that memory is read in
// order.
#if defined(JFA_CPU_FEW_ROWS_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef JFA_CPU_FEW_ROWS_BACKWARD_INL_H_
#undef JFA_CPU_FEW_ROWS_BACKWARD_INL_H_
#else
#define JFA_CPU_FEW_ROWS_BACKWARD_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "cpu/backward_rows-inl.h"
#include "cpu/few_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace jfa::cpu::HWY_NAMESPACE {

// Sets of lanes in one key head; 0: its rows do not fit.
HWY_INLINE std::int64_t lane_sets_a_head(std::int64_t rows, std::int64_t group) {
  if (rows > kPanel) return 0;
  const std::int64_t together = std::min(group, kPanel / rows);
  return (group + together - 1) / together;
}

// Lanes of the widest set.
HWY_INLINE std::int64_t lanes_a_set(std::int64_t rows, std::int64_t group) {
  return LaneSet{0, std::min(group, kPanel / rows), rows, 0}.stride();
}

HWY_INLINE bool fits_lanes(std::int64_t rows, std::int64_t group) {
  const std::int64_t sets = lane_sets_a_head(rows, group);
  return sets > 0 && sets <= kMostLaneSets && sets * lanes_a_set(rows, group) <= kMostBackwardLanes;
}

// Rows of a gradient that are written in place, or by way of the scratch.
struct WrittenRows {
  Rows rows;                 // data == nullptr: not wanted
  float* scratch = nullptr;  // null: in place

  WrittenRows(const Tensor& gradient, Layout layout, const SequenceView& sequence,
              std::int64_t kv_head, float* sums) {
    if (!gradient.present()) return;
    rows = rows_in_head(gradient, layout, sequence.kv_index, sequence.k_first, kv_head);
    if (rows.dtype != DType::float32 || rows.width % kLanes != 0) scratch = sums;
  }
};

// gradient of the keys [key, key + keys) = left·right over the lanes of a set, added to those of
// earlier sets of the same head unless `first`; leftᵀ has its lanes next to each other.
HWY_INLINE void write_key_gradient(const WrittenRows& gradient, const LaneSet& set,
                                   std::int64_t key, std::int64_t keys, bool first,
                                   const float* HWY_RESTRICT left, const float* HWY_RESTRICT right,
                                   std::int64_t stride) {
  const Rows& rows = gradient.rows;
  if (rows.data == nullptr) return;
  const bool in_place = gradient.scratch == nullptr;
  float* sums = in_place ? const_cast<float*>(element<float>(rows, key)) : gradient.scratch;
  const std::int64_t sums_stride = in_place ? rows.row_stride : stride;
  const auto product =
      first ? product_rows<Update::assign, Order::rows> : product_rows<Update::add, Order::rows>;
  for (std::int64_t j = 0; j < keys; j += kBlockRows) {
    const std::int64_t here = std::min<std::int64_t>(kBlockRows, keys - j);
    for (std::int64_t d = 0; d < rows.width; d += kPanel) {
      product(here, rows.width - d > kLanes ? 2 : 1, set.count(), left + j * set.stride(),
              set.stride(), right + d, stride, sums + j * sums_stride + d, sums_stride, nullptr);
    }
  }
  for (std::int64_t j = 0; !in_place && j < keys; ++j) {
    store_row(rows, key + j, sums + j * sums_stride, 1);
  }
}

// Sᵀ and the gradient of Pᵀ become Pᵀ and the gradient of Sᵀ, zero where hidden.
HWY_INLINE void gradient_lanes(const Scores& scores, const LaneSet& set, std::int64_t keys,
                               bool partial, const BackwardScratch& scratch) {
  const Floats f32;
  const std::int64_t stride = set.stride();
  if (scores.activation == Activation::softmax) {
    const FloatVector scale = hn::Set(f32, scores.late_scale);
    for (std::int64_t lane = 0; lane < stride; lane += kLanes) {
      const FloatVector lse = hn::LoadU(f32, scratch.lse + set.first + lane);
      const FloatVector rest = hn::LoadU(f32, scratch.lse_rest + set.first + lane);
      const FloatVector delta = hn::LoadU(f32, scratch.delta + set.first + lane);
      for (std::int64_t j = 0; j < keys; ++j) {
        float* p = scratch.p + j * stride + lane;
        float* d_s = scratch.d_s + j * stride + lane;
        const FloatVector value = exp2_of(hn::Sub(hn::MulSub(hn::LoadU(f32, p), scale, lse), rest));
        hn::StoreU(value, f32, p);
        hn::StoreU(hn::Mul(value, hn::Sub(hn::LoadU(f32, d_s), delta)), f32, d_s);
      }
    }
  } else {
    const KeyRange all{0, static_cast<int>(keys * stride)};
    with_activation(scores.activation, [&](auto activation) HWY_ATTR {
      activation_gradient_row<activation()>(scores, all, scratch.p, scratch.d_s);
    });
  }
  if (!partial) return;
  fill_hidden_lanes(set, keys, scratch.ranges, 0, scratch.p);
  fill_hidden_lanes(set, keys, scratch.ranges, 0, scratch.d_s);
}

// Q and dO of all sets, in rows (Q times scale, for the gradient of K) and transposed.
HWY_INLINE void load_lane_queries(const BackwardContext& context, const SequenceView& sequence,
                                  const LaneSets& sets, const BackwardScratch& scratch) {
  const std::int64_t dim = context.call.dim;
  const std::int64_t value_dim = context.call.value_dim;
  const std::int64_t lanes = sets.back().first + sets.back().stride();
  for (float* values : {scratch.lse, scratch.lse_rest, scratch.delta}) {
    std::fill_n(values, lanes, 0.0F);
  }
  std::fill_n(scratch.q_lanes, lanes * dim, 0.0F);
  std::fill_n(scratch.d_out_lanes, lanes * value_dim, 0.0F);
  zero_rows(scratch.d_q, lanes, round_up(dim, kLanes), scratch.q_stride);
  for (const LaneSet& set : sets) {
    for (std::int64_t h = 0; h < set.heads; ++h) {
      load_queries(context, sequence, set.head + h, 0, set.rows, set.first + h * set.rows, scratch);
    }
    for (std::int64_t n = 0; n < set.count(); ++n) {
      const std::int64_t lane = set.first + n;
      float* q = scratch.q + lane * scratch.q_stride;
      const float* d_out = scratch.d_out + lane * scratch.v_stride;
      for (std::int64_t d = 0; d < dim; ++d) {
        scratch.q_lanes[set.first * dim + d * set.stride() + n] = q[d];
        q[d] *= static_cast<float>(context.call.scale);
      }
      for (std::int64_t d = 0; d < value_dim; ++d) {
        scratch.d_out_lanes[set.first * value_dim + d * set.stride() + n] = d_out[d];
      }
      // A row that sees nothing: P = exp2(s − ∞).
      if (scratch.lse[lane] == -std::numeric_limits<float>::infinity()) {
        scratch.lse[lane] = std::numeric_limits<float>::infinity();
        scratch.lse_rest[lane] = 0;
      }
    }
  }
}

// K of a block as float32 in whole vectors: where it lies, or copied.
HWY_INLINE Rows block_of_keys(const Rows& k, std::int64_t key, std::int64_t keys,
                              const BackwardScratch& scratch) {
  Rows block = k;
  if (k.dtype == DType::float32 && k.width % kLanes == 0) {
    block.data = element<float>(k, key);
    return block;
  }
  load_rows(k, key, keys, round_up(k.width, kLanes), scratch.k, scratch.q_stride);
  return {scratch.k, DType::float32, scratch.q_stride, 1, k.width};
}

// The keys [key, key + keys) of one head meet a set.
HWY_INLINE void backward_lane_block(const BackwardContext& context, const SequenceView& sequence,
                                    const BackwardTask& task, const LaneSet& set, std::int64_t key,
                                    std::int64_t keys, kernels::Visibility visibility,
                                    RowPrefetcher& prefetcher, const BackwardScratch& scratch) {
  const BackwardArgs& args = context.backward;
  const Layout layout = args.kv_sequences.layout;
  const std::int64_t kv_head = set.head / context.group;
  const bool first = set.head % context.group == 0;
  const WrittenRows d_k(task.with_keys ? args.d_k : Tensor(), layout, sequence, kv_head,
                        scratch.d_k);
  const WrittenRows d_v(task.with_keys ? args.d_v : Tensor(), layout, sequence, kv_head,
                        scratch.d_v);
  if (visibility == kernels::Visibility::skipped) {
    zero_rows(scratch.row, 1, std::max(scratch.q_stride, scratch.v_stride), 0);
    for (std::int64_t j = 0; first && j < keys; ++j) {
      if (d_k.rows.data != nullptr) store_row(d_k.rows, key + j, scratch.row, 1);
      if (d_v.rows.data != nullptr) store_row(d_v.rows, key + j, scratch.row, 1);
    }
    return;
  }
  const Rows k =
      block_of_keys(rows_in_head(args.k, layout, sequence.kv_index, sequence.k_first, kv_head), key,
                    keys, scratch);
  const Rows v = rows_in_head(args.v, layout, sequence.kv_index, sequence.k_first, kv_head);
  lane_products(k, 0, keys, set, scratch.q_lanes + set.first * k.width, nullptr, 0, scratch.p,
                prefetcher);
  lane_products(v, key, keys, set, scratch.d_out_lanes + set.first * v.width, scratch.v,
                scratch.v_stride, scratch.d_s, prefetcher);
  gradient_lanes(context.scores_of(sequence, set.head), set, keys,
                 visibility == kernels::Visibility::partial, scratch);
  write_key_gradient(d_v, set, key, keys, first, scratch.p,
                     scratch.d_out + set.first * scratch.v_stride, scratch.v_stride);
  write_key_gradient(d_k, set, key, keys, first, scratch.d_s,
                     scratch.q + set.first * scratch.q_stride, scratch.q_stride);
  if (!task.with_queries) return;
  add_lane_products<Update::add>(
      set, keys, round_up(k.width, kLanes), scratch.d_s, static_cast<const float*>(k.data),
      k.row_stride, scratch.d_q + set.first * scratch.q_stride, scratch.q_stride, scratch.delta);
}

// d_q of the sets, which have met all keys.
HWY_INLINE void store_lane_queries(const BackwardContext& context, const SequenceView& sequence,
                                   const LaneSets& sets, const SharedSums& shared,
                                   const BackwardScratch& scratch) {
  const auto scale = static_cast<float>(context.call.scale);
  for (const LaneSet& set : sets) {
    for (std::int64_t n = 0; n < set.count(); ++n) {
      const std::int64_t head = set.head + n / set.rows;
      const std::int64_t row = n % set.rows;
      const float* sums = scratch.d_q + (set.first + n) * scratch.q_stride;
      if (shared.d_q != nullptr) {
        const std::int64_t rows = context.args.q.shape[0];
        add_rows(sums, 1, context.call.dim, 0, scale,
                 shared.d_q + (head % context.group * rows + row) * scratch.q_stride);
      } else {
        store_row(query_gradient(context, sequence, head), row, sums, scale);
      }
    }
  }
}

// Some key heads whose lanes fit in the scratch together.
HWY_INLINE void few_rows_in_heads(const BackwardContext& context, const SequenceView& sequence,
                                  const BackwardTask& task, std::int64_t kv_head,
                                  std::int64_t heads, const SharedSums& shared,
                                  const BackwardScratch& scratch) {
  const std::int64_t in_head = lane_sets_a_head(sequence.q_length, context.group);
  const LaneSets sets(sequence.q_length, context.group, context.call.heads, kv_head * in_head,
                      heads * in_head);
  load_lane_queries(context, sequence, sets, scratch);
  const bool masked = sequence.mask.kind != kernels::MaskParameters::full;
  for (std::int64_t i = 0; masked && i < sequence.q_length; ++i) {
    scratch.intervals[i] = context.visible(sequence, i);
  }
  const Layout layout = context.args.kv_sequences.layout;
  const std::int64_t step = std::min(kLaneKeys, scratch.blocking.keys);
  for (std::int64_t key = task.key_begin; key < task.key_end; key += step) {
    const std::int64_t keys = std::min(step, task.key_end - key);
    auto visibility = kernels::Visibility::full;
    if (masked) {
      visibility = mask_block(scratch.intervals, sequence.q_length, key, keys, scratch.ranges,
                              scratch.groups);
    }
    RowPrefetcher prefetcher;
    const BackwardArgs& args = context.backward;
    for (const Tensor* tensor : {&args.k, &args.v, &args.d_k, &args.d_v}) {
      if (!tensor->present()) continue;
      prefetcher.add(rows_in_heads(*tensor, layout, sequence.kv_index, sequence.k_first, kv_head,
                                   kv_head + heads),
                     key + keys, std::min(step, task.key_end - key - keys));
    }
    prefetcher.plan(2 * lane_blocks(keys) * sets.size());
    for (const LaneSet& set : sets) {
      backward_lane_block(context, sequence, task, set, key, keys, visibility, prefetcher, scratch);
    }
  }
  if (task.with_queries) store_lane_queries(context, sequence, sets, shared, scratch);
}

HWY_INLINE void few_rows_by_lanes(const BackwardContext& context, const SequenceView& sequence,
                                  const BackwardTask& task, const SharedSums& shared,
                                  const BackwardScratch& scratch) {
  const std::int64_t sets = lane_sets_a_head(sequence.q_length, context.group);
  const std::int64_t lanes = sets * lanes_a_set(sequence.q_length, context.group);
  const std::int64_t most = std::min(kMostLaneSets / sets, kMostBackwardLanes / lanes);
  for (std::int64_t n = 0; n < task.heads; n += most) {
    few_rows_in_heads(context, sequence, task, task.kv_head + n, std::min(most, task.heads - n),
                      shared, scratch);
  }
}

}  // namespace jfa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
