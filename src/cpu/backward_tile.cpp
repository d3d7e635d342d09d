// Tasks of the backward pass. A block of query rows meets a block of keys in five products:
//   S = Q·Kᵀ   dP = dO·Vᵀ   dV += Pᵀ·dO   dK += dSᵀ·Q   dQ += dS·K
// K and V are packed once per block of keys; Q and dO serve as left and right operand as they are.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/backward_tile.cpp"
#include <hwy/foreach_target.h>

#include "cpu/backward_rows-inl.h"
#include "cpu/bias_gradient-inl.h"
#include "cpu/few_rows_backward-inl.h"
#include "cpu/tasks.hpp"
#include "cpu/tile_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace jfa::cpu::HWY_NAMESPACE {
namespace {

// Whether S and dP are computed on tiles, from panels of pairs.
bool scores_on_tiles(const BackwardContext& context) {
  const BackwardArgs& args = context.backward;
  return TileProducts::can(context) && context.call.value_dim % 32 == 0 &&
         args.out_scale_kind == OutScale::uniform && args.out_scale == 1 &&
         args.d_out.strides[static_cast<std::size_t>(args.d_out.rank - 1)] == 1;
}

// Keys [begin, begin + count) of one key sequence: Kᵀ and Vᵀ as panels, scale·K in rows.
void load_keys(const BackwardContext& context, const SequenceView& sequence, std::int64_t kv_head,
               std::int64_t begin, std::int64_t count, const BackwardScratch& scratch) {
  const Layout layout = context.args.kv_sequences.layout;
  const Rows k = rows_in_head(context.args.k, layout, sequence.kv_index, sequence.k_first, kv_head);
  const Rows v = rows_in_head(context.args.v, layout, sequence.kv_index, sequence.k_first, kv_head);
  load_rows(k, begin, count, round_up(k.width, kLanes), scratch.k, scratch.q_stride);
  const bool pairs = scores_on_tiles(context);
  if (pairs) {
    pack_pairs(k, begin, count, scratch.v, scratch.q_stride, scratch.k_panels);
    pack_pairs(v, begin, count, scratch.v, scratch.v_stride, scratch.v_panels);
  } else {
    pack_transposed(scratch.k, scratch.q_stride, count, k.width, round_up(k.width, 4) * kPanel,
                    scratch.k_panels);
  }
  const Floats f32;
  const FloatVector scale = hn::Set(f32, static_cast<float>(context.call.scale));
  for (std::int64_t j = 0; j < count; ++j) {
    float* row = scratch.k + j * scratch.q_stride;
    for (std::int64_t d = 0; d < k.width; d += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(f32, row + d), scale), f32, row + d);
    }
  }
  if (pairs) return;
  load_panels(v, begin, count, scratch.v, scratch.v_stride, scratch.v_panels);
}

// Which keys of [key, key + keys) the rows see.
kernels::Visibility see_block(const BackwardContext& context, const SequenceView& sequence,
                              std::int64_t first, std::int64_t rows, std::int64_t key,
                              std::int64_t keys, const BackwardScratch& scratch) {
  if (sequence.mask.kind == kernels::MaskParameters::full) {
    full_block(rows, keys, scratch.ranges, scratch.groups);
    return kernels::Visibility::full;
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    scratch.intervals[i] = context.visible(sequence, first + i);
  }
  return mask_block(scratch.intervals, rows, key, keys, scratch.ranges, scratch.groups);
}

// p holds products and d_s the gradient of P; both become P and the gradient of S, zero where
// hidden.
void softmax_gradient_row(float late_scale, float lse, float lse_rest, float delta, KeyRange range,
                          float* HWY_RESTRICT p, float* HWY_RESTRICT d_s) {
  const Floats f32;
  const FloatVector scale = hn::Set(f32, late_scale);
  const FloatVector subtract = hn::Set(f32, lse);
  const FloatVector rest = hn::Set(f32, lse_rest);
  const FloatVector mean = hn::Set(f32, delta);
  for (std::int64_t j = range.begin; j < range.end; j += kLanes) {
    const FloatVector value =
        exp2_of(hn::Sub(hn::MulSub(hn::LoadU(f32, p + j), scale, subtract), rest));
    hn::StoreU(value, f32, p + j);
    hn::StoreU(hn::Mul(value, hn::Sub(hn::LoadU(f32, d_s + j), mean)), f32, d_s + j);
  }
}

void gradient_rows(const Scores& scores, std::int64_t first, std::int64_t rows, std::int64_t key,
                   std::int64_t keys, bool partial, const BackwardScratch& scratch) {
  const bool softmax = scores.activation == Activation::softmax;
  const std::int64_t end = round_up(keys, kLanes);
  for (std::int64_t i = 0; i < rows; ++i) {
    const KeyRange group = scratch.groups[i / kBlockRows];
    const KeyRange range = whole_vectors(group);
    float* p = scratch.p + i * scratch.s_stride;
    float* d_s = scratch.d_s + i * scratch.s_stride;
    if (scores.adjusted) adjust_row(scores, first + i, key, group.begin, group.end, p);
    if (softmax) {
      if (scratch.lse[i] == -std::numeric_limits<float>::infinity()) {  // sees nothing
        std::fill_n(p, end, 0.0F);
        std::fill_n(d_s, end, 0.0F);
        continue;
      }
      softmax_gradient_row(scores.late_scale, scratch.lse[i], scratch.lse_rest[i], scratch.delta[i],
                           range, p, d_s);
    } else {
      with_activation(scores.activation, [&](auto activation) HWY_ATTR {
        activation_gradient_row<activation()>(scores, range, p, d_s);
      });
    }
    if (!partial) continue;
    fill_hidden(p, 0, end, scratch.ranges[i], 0);
    fill_hidden(d_s, 0, end, scratch.ranges[i], 0);
  }
}

// Query rows that see any of the keys [key, key + kBlockRows) of the block, in whole groups.
KeyRange64 rows_that_see(std::int64_t rows, std::int64_t key, const KeyRange* groups) {
  const std::int64_t count = (rows + kBlockRows - 1) / kBlockRows;
  const auto sees = [&](std::int64_t g) {
    return groups[g].begin < key + kBlockRows && groups[g].end > key;
  };
  std::int64_t begin = 0;
  std::int64_t end = count;
  while (begin < count && !sees(begin)) ++begin;
  while (end > begin && !sees(end - 1)) --end;
  return {begin * kBlockRows, std::min(rows, end * kBlockRows)};
}

// sums[keys × columns] += leftᵀ·right over the rows that see each key.
void add_transposed(std::int64_t rows, std::int64_t keys, std::int64_t columns,
                    const float* HWY_RESTRICT left, std::int64_t left_stride,
                    const float* HWY_RESTRICT right, std::int64_t right_stride,
                    const KeyRange* groups, float* HWY_RESTRICT sums) {
  for (std::int64_t j = 0; j < columns; j += kPanel) {
    const std::int64_t vectors = columns - j > kLanes ? 2 : 1;
    for (std::int64_t key = 0; key < keys; key += kBlockRows) {
      const KeyRange64 see = rows_that_see(rows, key, groups);
      if (see.begin >= see.end) continue;
      product_rows<Update::add, Order::columns>(
          std::min<std::int64_t>(kBlockRows, keys - key), vectors, see.end - see.begin,
          left + see.begin * left_stride + key, left_stride, right + see.begin * right_stride + j,
          right_stride, sums + key * right_stride + j, right_stride, nullptr);
    }
  }
}

// d_q[rows × columns] += d_s·K over the keys that each group of rows sees.
void add_query_gradient(std::int64_t rows, std::int64_t columns, const BackwardScratch& scratch,
                        float* HWY_RESTRICT d_q, std::int64_t stride) {
  for (std::int64_t j = 0; j < columns; j += kPanel) {
    const std::int64_t vectors = columns - j > kLanes ? 2 : 1;
    for (std::int64_t i = 0; i < rows; i += kBlockRows) {
      const KeyRange range = scratch.groups[i / kBlockRows];
      if (range.begin == range.end) continue;
      product_rows<Update::add, Order::rows>(
          std::min<std::int64_t>(kBlockRows, rows - i), vectors, range.end - range.begin,
          scratch.d_s + i * scratch.s_stride + range.begin, scratch.s_stride,
          scratch.k + range.begin * scratch.q_stride + j, scratch.q_stride, d_q + i * stride + j,
          stride, nullptr);
    }
  }
}

// The rows of the next block: those that load_queries will read.
void prefetch_queries(const BackwardContext& context, const SequenceView& sequence,
                      std::int64_t head, std::int64_t first, std::int64_t block_rows,
                      RowPrefetcher& prefetcher) {
  const BackwardArgs& args = context.backward;
  const Layout layout = args.q_sequences.layout;
  const Layout out_layout = detail::out_layout(layout);
  const std::int64_t rows = std::min(block_rows, sequence.q_length - first);
  if (rows <= 0) return;
  const auto add = [&](const Tensor& tensor, Layout rows_layout) {
    prefetcher.add(rows_in_head(tensor, rows_layout, sequence.index, sequence.q_first, head), first,
                   rows);
  };
  add(args.q, layout);
  add(args.d_out, out_layout);
  if (args.activation == Activation::softmax) add(args.out, out_layout);
}

// Q·Kᵀ and dO·Vᵀ of one block, kTileRows at a time.
void tile_products(const BackwardContext& context, const SequenceView& sequence, std::int64_t head,
                   std::int64_t first, std::int64_t rows, std::int64_t keys,
                   const BackwardScratch& scratch) {
  const BackwardArgs& args = context.backward;
  const Layout layout = args.q_sequences.layout;
  const Rows q = rows_in_head(args.q, layout, sequence.index, sequence.q_first, head);
  const Rows d_out =
      rows_in_head(args.d_out, detail::out_layout(layout), sequence.index, sequence.q_first, head);
  const auto scores = [&](const Rows& left, const float* panels, float* s) {
    for (std::int64_t i = 0; i < rows; i += kTileRows) {
      const std::int64_t end = std::min(rows, i + kTileRows);
      load_tile_rows(left, first + i, end - i, scratch.tile_rows, left.width);
      tile_scores(i, end, keys, left.width, scratch.tile_rows, left.width, panels, scratch.groups,
                  s + i * scratch.s_stride, scratch.s_stride);
    }
  };
  const AmxTiles tiles;
  scores(q, scratch.k_panels, scratch.p);
  scores(d_out, scratch.v_panels, scratch.d_s);
}

// P and the gradient of S of one block; false when no row sees a key of it.
bool score_block(const BackwardContext& context, const SequenceView& sequence, std::int64_t head,
                 std::int64_t first, std::int64_t rows, std::int64_t key, std::int64_t keys,
                 const BackwardScratch& scratch) {
  const auto visibility = see_block(context, sequence, first, rows, key, keys, scratch);
  if (visibility == kernels::Visibility::skipped) return false;
  load_queries(context, sequence, head, first, rows, 0, scratch);
  const std::int64_t dim = context.call.dim;
  const std::int64_t value_dim = context.call.value_dim;
  if (scores_on_tiles(context)) {
    tile_products(context, sequence, head, first, rows, keys, scratch);
  } else {
    RowPrefetcher prefetcher;
    prefetch_queries(context, sequence, head, first + rows, scratch.blocking.rows, prefetcher);
    prefetcher.plan(2 * register_blocks(rows, keys));
    score_products(rows, keys, dim, scratch.q, scratch.q_stride, scratch.k_panels,
                   round_up(dim, 4) * kPanel, scratch.groups, scratch.p, scratch.s_stride,
                   prefetcher);
    score_products(rows, keys, value_dim, scratch.d_out, scratch.v_stride, scratch.v_panels,
                   round_up(value_dim, 4) * kPanel, scratch.groups, scratch.d_s, scratch.s_stride,
                   prefetcher);
  }
  gradient_rows(context.scores_of(sequence, head), first, rows, key, keys,
                visibility == kernels::Visibility::partial, scratch);
  return true;
}

// Where a task of kind `keys` sums the query gradient of one sequence and head.
struct QuerySums {
  float* rows = nullptr;  // null: not wanted
  std::int64_t stride = 0;
};

QuerySums query_sums(const BackwardContext& context, const SequenceView& sequence,
                     std::int64_t head, std::int64_t scratch_row, const SharedSums& shared,
                     const BackwardScratch& scratch) {
  if (shared.d_q != nullptr) {
    const std::int64_t rows = context.args.q.shape[0];
    const std::int64_t in_group = head % context.group;
    return {shared.d_q + in_group * rows * scratch.q_stride, scratch.q_stride};
  }
  if (context.direct_d_q) {
    const Rows rows = query_gradient(context, sequence, head);
    return {static_cast<float*>(const_cast<void*>(rows.data)), rows.row_stride};
  }
  return {scratch.d_q + scratch_row * scratch.q_stride, scratch.q_stride};
}

// Calls visit(sequence, head, scratch_row) for every query sequence and head of a task; scratch_row
// counts query rows.
template <typename Visit>
void for_each_query_head(const BackwardContext& context, const BackwardTask& task,
                         const Visit& visit) {
  std::int64_t scratch_row = 0;
  for (std::int64_t member = task.member_begin; member < task.member_end; ++member) {
    const SequenceView& sequence = member_of(context, member);
    for (std::int64_t g = 0; g < context.group; ++g) {
      visit(sequence, task.kv_head * context.group + g, scratch_row);
      scratch_row += sequence.q_length;
    }
  }
}

// Writes the sums of one block of keys to the gradients, or adds them to the shared sums.
void store_keys(const BackwardContext& context, const SequenceView& sequence, std::int64_t kv_head,
                std::int64_t key, std::int64_t keys, const SharedSums& shared,
                const BackwardScratch& scratch) {
  const BackwardArgs& args = context.backward;
  const Layout layout = args.kv_sequences.layout;
  const auto scale = static_cast<float>(context.call.scale);
  if (shared.d_k != nullptr) {
    add_rows(scratch.d_k, keys, context.call.dim, scratch.q_stride, scale,
             shared.d_k + key * scratch.q_stride);
  } else if (args.d_k.present()) {
    const Rows rows = rows_in_head(args.d_k, layout, sequence.kv_index, sequence.k_first, kv_head);
    for (std::int64_t j = 0; j < keys; ++j) {
      prefetch_written_row(rows, key + j, key + keys);
      store_row(rows, key + j, scratch.d_k + j * scratch.q_stride, scale);
    }
  }
  if (shared.d_v != nullptr) {
    add_rows(scratch.d_v, keys, context.call.value_dim, scratch.v_stride, 1,
             shared.d_v + key * scratch.v_stride);
  } else if (args.d_v.present()) {
    const Rows rows = rows_in_head(args.d_v, layout, sequence.kv_index, sequence.k_first, kv_head);
    for (std::int64_t j = 0; j < keys; ++j) {
      prefetch_written_row(rows, key + j, key + keys);
      store_row(rows, key + j, scratch.d_v + j * scratch.v_stride, 1);
    }
  }
}

void keys_task(const BackwardContext& context, const BackwardTask& task, const SharedSums& shared,
               const BackwardScratch& scratch) {
  const BackwardArgs& args = context.backward;
  const std::int64_t q_columns = round_up(context.call.dim, kLanes);
  const std::int64_t v_columns = round_up(context.call.value_dim, kLanes);
  const SequenceView& owner = member_of(context, task.member_begin);
  const std::int64_t step = scratch.blocking.keys;
  const bool one_block = task.key_end - task.key_begin <= step;
  // With one block of keys a block of d_q is complete at once and needs no other place.
  const bool d_q_at_once =
      task.with_queries && one_block && shared.d_q == nullptr && !context.direct_d_q;
  if (task.with_queries && shared.d_q == nullptr && !d_q_at_once) {
    for_each_query_head(
        context, task,
        [&](const SequenceView& sequence, std::int64_t head, std::int64_t scratch_row) {
          const QuerySums sums = query_sums(context, sequence, head, scratch_row, shared, scratch);
          zero_rows(sums.rows, sequence.q_length, q_columns, sums.stride);
        });
  }
  for (std::int64_t key = task.key_begin; key < task.key_end; key += step) {
    const std::int64_t keys = std::min(step, task.key_end - key);
    load_keys(context, owner, task.kv_head, key, keys, scratch);
    zero_rows(scratch.d_k, keys, q_columns, scratch.q_stride);
    zero_rows(scratch.d_v, keys, v_columns, scratch.v_stride);
    for_each_query_head(
        context, task,
        [&](const SequenceView& sequence, std::int64_t head, std::int64_t scratch_row) {
          QuerySums sums;
          if (task.with_queries && !d_q_at_once) {
            sums = query_sums(context, sequence, head, scratch_row, shared, scratch);
          }
          for (std::int64_t first = 0; first < sequence.q_length; first += scratch.blocking.rows) {
            const std::int64_t rows = std::min(scratch.blocking.rows, sequence.q_length - first);
            if (d_q_at_once) zero_rows(scratch.d_q, rows, q_columns, scratch.q_stride);
            if (score_block(context, sequence, head, first, rows, key, keys, scratch)) {
              if (args.d_v.present()) {
                add_transposed(rows, keys, v_columns, scratch.p, scratch.s_stride, scratch.d_out,
                               scratch.v_stride, scratch.groups, scratch.d_v);
              }
              if (args.d_k.present()) {
                add_transposed(rows, keys, q_columns, scratch.d_s, scratch.s_stride, scratch.q,
                               scratch.q_stride, scratch.groups, scratch.d_k);
              }
              if (d_q_at_once) {
                add_query_gradient(rows, q_columns, scratch, scratch.d_q, scratch.q_stride);
              } else if (task.with_queries) {
                add_query_gradient(rows, q_columns, scratch, sums.rows + first * sums.stride,
                                   sums.stride);
              }
              add_bias_gradients(context, sequence, head, first, rows, key, shared, scratch);
            }
            if (d_q_at_once) {
              const Rows d_q = query_gradient(context, sequence, head);
              for (std::int64_t i = 0; i < rows; ++i) {
                store_row(d_q, first + i, scratch.d_q + i * scratch.q_stride, 1);
              }
            }
          }
        });
    store_keys(context, owner, task.kv_head, key, keys, shared, scratch);
  }
  if (!task.with_queries || shared.d_q != nullptr || context.direct_d_q || d_q_at_once) return;
  for_each_query_head(
      context, task,
      [&](const SequenceView& sequence, std::int64_t head, std::int64_t scratch_row) {
        const Rows d_q = query_gradient(context, sequence, head);
        for (std::int64_t i = 0; i < sequence.q_length; ++i) {
          store_row(d_q, i, scratch.d_q + (scratch_row + i) * scratch.q_stride, 1);
        }
      });
}

void queries_task(const BackwardContext& context, const BackwardTask& task,
                  const BackwardScratch& scratch) {
  const std::int64_t columns = round_up(context.call.dim, kLanes);
  const std::int64_t step = scratch.blocking.keys;
  const std::int64_t kv_head = task.head / context.group;
  zero_rows(scratch.d_q, task.row_end - task.row_begin, columns, scratch.q_stride);
  for (std::int64_t member = task.member_begin; member < task.member_end; ++member) {
    const SequenceView& sequence = member_of(context, member);
    const std::int64_t rows = std::min(task.row_end, sequence.q_length) - task.row_begin;
    if (rows <= 0) continue;
    for (std::int64_t key = 0; key < sequence.k_length; key += step) {
      const std::int64_t keys = std::min(step, sequence.k_length - key);
      if (see_block(context, sequence, task.row_begin, rows, key, keys, scratch) ==
          kernels::Visibility::skipped) {
        continue;
      }
      load_keys(context, sequence, kv_head, key, keys, scratch);
      score_block(context, sequence, task.head, task.row_begin, rows, key, keys, scratch);
      add_query_gradient(rows, columns, scratch, scratch.d_q, scratch.q_stride);
    }
  }
  const Rows d_q = query_gradient(context, member_of(context, task.member_begin), task.head);
  for (std::int64_t i = 0; i < task.row_end - task.row_begin; ++i) {
    store_row(d_q, task.row_begin + i, scratch.d_q + i * scratch.q_stride, 1);
  }
}

// A tile of d_bias_dense, summed over the task's sequences and heads in d_k (rows of `keys`
// floats).
void dense_bias_task(const BackwardContext& context, const BackwardTask& task,
                     const BackwardScratch& scratch) {
  const std::int64_t count = task.row_end - task.row_begin;
  const std::int64_t width = task.key_end - task.key_begin;
  float* sums = scratch.d_q;
  zero_rows(sums, count, width, scratch.s_stride);
  for (std::int64_t member = task.member_begin; member < task.member_end; ++member) {
    const SequenceView& sequence = member_of(context, member);
    const std::int64_t rows = std::min(task.row_end, sequence.q_length) - task.row_begin;
    const std::int64_t keys = std::min(task.key_end, sequence.k_length) - task.key_begin;
    if (rows <= 0 || keys <= 0) continue;
    for (std::int64_t head = task.head; head < task.head + task.heads; ++head) {
      load_keys(context, sequence, head / context.group, task.key_begin, keys, scratch);
      if (!score_block(context, sequence, head, task.row_begin, rows, task.key_begin, keys,
                       scratch)) {
        continue;
      }
      for (std::int64_t i = 0; i < rows; ++i) {
        const KeyRange range = scratch.groups[i / kBlockRows];
        const float* HWY_RESTRICT d_s = scratch.d_s + i * scratch.s_stride;
        float* HWY_RESTRICT sum = sums + i * scratch.s_stride;
        for (std::int64_t j = range.begin; j < range.end; ++j) sum[j] += d_s[j];
      }
    }
  }
  const Tensor& gradient = context.backward.d_bias_dense;
  const SequenceView& first = member_of(context, task.member_begin);
  const std::int64_t offset = (gradient.shape[0] == 1 ? 0 : first.index * gradient.strides[0]) +
                              (gradient.shape[1] == 1 ? 0 : task.head * gradient.strides[1]);
  for (std::int64_t i = 0; i < count; ++i) {
    float* row = static_cast<float*>(gradient.data) + offset +
                 (task.row_begin + i) * gradient.strides[2] + task.key_begin * gradient.strides[3];
    for (std::int64_t j = 0; j < width; ++j) {
      row[j * gradient.strides[3]] = sums[i * scratch.s_stride + j];
    }
  }
}

// One sequence in some key heads, by lanes where this instruction set has enough of them.
void few_rows_task(const BackwardContext& context, const BackwardTask& task,
                   const SharedSums& shared, const BackwardScratch& scratch) {
  const SequenceView& sequence = member_of(context, task.member_begin);
  if (fits_lanes(sequence.q_length, context.group)) {
    return few_rows_by_lanes(context, sequence, task, shared, scratch);
  }
  for (std::int64_t n = 0; n < task.heads; ++n) {
    BackwardTask one = task;
    one.kv_head = task.kv_head + n;
    if (task.with_keys) {
      keys_task(context, one, shared, scratch);
      continue;
    }
    one.row_end = sequence.q_length;
    for (std::int64_t g = 0; g < context.group; ++g) {
      one.head = one.kv_head * context.group + g;
      queries_task(context, one, scratch);
    }
  }
}

}  // namespace

void backward_task(const BackwardContext& context, const BackwardTask& task,
                   const SharedSums& shared, const BackwardScratch& scratch) {
  switch (task.kind) {
    case BackwardTask::Kind::keys:
      return keys_task(context, task, shared, scratch);
    case BackwardTask::Kind::few_rows:
      return few_rows_task(context, task, shared, scratch);
    case BackwardTask::Kind::queries:
      return queries_task(context, task, scratch);
    case BackwardTask::Kind::dense_bias:
      return dense_bias_task(context, task, scratch);
  }
}

void store_rows(const Rows& rows, std::int64_t first, std::int64_t count, const float* from,
                std::int64_t stride, float factor) {
  for (std::int64_t i = 0; i < count; ++i) store_row(rows, first + i, from + i * stride, factor);
}

}  // namespace jfa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace jfa::cpu {

HWY_EXPORT(backward_task);
HWY_EXPORT(store_rows);

void run_store_rows(const Rows& rows, std::int64_t first, std::int64_t count, const float* from,
                    std::int64_t stride, float factor) {
  HWY_DYNAMIC_DISPATCH(store_rows)(rows, first, count, from, stride, factor);
}

void run_backward_task(const BackwardContext& context, const BackwardTask& task,
                       const SharedSums& shared, const BackwardScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(backward_task)(context, task, shared, scratch);
}

}  // namespace jfa::cpu
#endif
