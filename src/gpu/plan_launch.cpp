#include "gpu/plan_launch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/memory.hpp"
#include "jfa/error.hpp"
#include "plan/plan_arguments.h"

namespace jfa::gpu {
namespace {

constexpr std::array<SequenceParameter Mask::*, 10> kParameters = {&Mask::left,
                                                                   &Mask::right,
                                                                   &Mask::contextual,
                                                                   &Mask::targets,
                                                                   &Mask::target_group,
                                                                   &Mask::max_attention_length,
                                                                   &Mask::min_full_attention,
                                                                   &Mask::prefix,
                                                                   &Mask::local,
                                                                   &Mask::block};

std::int64_t rows_of_sequence(const Tensor& tensor) {
  return tensor.shape[tensor.rank == 4 ? 1 : 0];
}

kernels::MaskArgument argument_of(const SequenceParameter& parameter) {
  kernels::MaskArgument argument;
  argument.value = parameter.value;
  if (!parameter.per_sequence.present()) return argument;
  argument.per_sequence = parameter.per_sequence.data;
  argument.stride = parameter.per_sequence.strides[0];
  argument.wide = parameter.per_sequence.dtype == DType::int64 ? 1 : 0;
  return argument;
}

// So many tiles (times the heads) are few for the multiprocessors of a GPU: the last ones to run
// decide when it ends. On an H200 the causal llm_4k (128 tiles, 16 heads) runs 8 % faster with its
// tiles sorted each by itself; half_1024 (5,000 tiles) causal 17 % slower.
constexpr std::int64_t kFewTiles = 512;

std::int64_t tiles_of(std::int64_t rows, std::int64_t tile) {
  return (rows + tile - 1) / tile;
}

kernels::IntegerArray integers_of(const Tensor& tensor) {
  if (!tensor.present()) return {};
  return {tensor.data, tensor.strides[0], tensor.dtype == DType::int64 ? 1 : 0};
}

}  // namespace

PlanShape plan_shape(const AttentionArgs& args, const detail::CallShape& shape,
                     const InputRows& rows, bool strict_isolation) {
  const ForwardKey key = forward_key(args, shape);
  const kernels::sm90::ForwardShape tile = shape_of(key);
  PlanShape plan;
  plan.q_layout = args.q_sequences.layout;
  plan.kv_layout = args.kv_sequences.layout;
  plan.q_used = args.q_sequences.used_lengths.present();
  plan.kv_used = args.kv_sequences.used_lengths.present();
  plan.mapped = args.kv_map.present();
  plan.batch = shape.batch;
  plan.kv_batch = shape.kv_batch;
  plan.q_rows = rows_of_sequence(args.q);
  plan.kv_rows = rows_of_sequence(args.k);
  plan.out_rows = shape.out_rows;
  plan.q_sequence_rows = rows.q.sequence_rows;
  plan.kv_sequence_rows = rows.k.sequence_rows;
  plan.tile_tokens = kernels::sm90::tile_tokens(tile, key.packed_heads);
  plan.key_block = tile.keys;
  plan.packs = !strict_isolation;
  plan.few_long = key.long_keys && plan_layout(plan).most_tiles <= kFewTiles;
  plan.mask = args.mask.kind;
  plan.alignment = args.mask.alignment;
  plan.hstu_causal = args.mask.hstu_causal;
  for (std::size_t i = 0; i < kParameters.size(); ++i) {
    const SequenceParameter& parameter = args.mask.*kParameters[i];
    plan.mask_values[i] = parameter.per_sequence.present() ? 0 : parameter.value;
  }
  return plan;
}

void require_same(const PlanShape& plan, const PlanShape& call) {
  if (plan == call) return;
  const auto refuse = [](const std::string& what) {
    throw InvalidArgument(
        fmt::format("plan: made for {}; make a new plan for these arguments", what));
  };
  const auto numbers = [&](std::string_view what, std::int64_t planned, std::int64_t called) {
    if (planned != called) refuse(fmt::format("{} {}, this call has {}", what, planned, called));
  };
  if (plan.q_layout != call.q_layout || plan.kv_layout != call.kv_layout) {
    refuse("other layouts of q or k than this call has");
  }
  numbers("a batch of", plan.batch, call.batch);
  numbers("a number of key sequences of", plan.kv_batch, call.kv_batch);
  numbers("a number of query rows of", plan.q_rows, call.q_rows);
  numbers("a number of key rows of", plan.kv_rows, call.kv_rows);
  numbers("a distance between the sequences of q, in rows, of", plan.q_sequence_rows,
          call.q_sequence_rows);
  numbers("a distance between the sequences of k, in rows, of", plan.kv_sequence_rows,
          call.kv_sequence_rows);
  numbers("tiles of query rows (they follow from Hq / Hkv) of", plan.tile_tokens, call.tile_tokens);
  numbers("blocks of keys (they follow from D and Dv) of", plan.key_block, call.key_block);
  if (plan.packs != call.packs) refuse("another value of strict_isolation");
  if (plan.q_used != call.q_used || plan.kv_used != call.kv_used) {
    refuse(plan.q_used || plan.kv_used ? "used_lengths that this call lacks, or lacks those it has"
                                       : "no used_lengths, this call has some");
  }
  if (plan.mapped != call.mapped) {
    refuse(plan.mapped ? "a kv_map, this call has none" : "no kv_map, this call has one");
  }
  refuse("another mask than this call has");
}

PlanLayout plan_layout(const PlanShape& shape) {
  PlanLayout layout;
  const std::int64_t tile = shape.tile_tokens;
  layout.most_tiles = shape.q_layout == Layout::jagged
                          ? tiles_of(shape.out_rows, tile) + shape.batch
                          : shape.batch * tiles_of(shape.q_rows, tile);
  layout.most_gaps = shape.batch + 1 + tiles_of(shape.out_rows, kernels::kGapRows);
  std::size_t end = aligned(sizeof(kernels::PlanHeader));
  const auto place = [&](std::size_t& offset, std::int64_t count, std::size_t size) {
    offset = end;
    end = aligned(end + static_cast<std::size_t>(count) * size);
  };
  place(layout.counters, kCounterSlots, sizeof(kernels::WorkCounters));
  place(layout.sequences, shape.batch, sizeof(kernels::SequenceRows));
  place(layout.tiles, layout.most_tiles, sizeof(kernels::TileWork));
  place(layout.gaps, layout.most_gaps, sizeof(kernels::RowGap));
  layout.bytes = end;
  return layout;
}

PlanParts plan_parts(const PlanLayout& layout, void* memory) {
  auto* const base = static_cast<std::byte*>(memory);
  return {reinterpret_cast<kernels::PlanHeader*>(base),
          reinterpret_cast<kernels::WorkCounters*>(base + layout.counters),
          reinterpret_cast<kernels::SequenceRows*>(base + layout.sequences),
          reinterpret_cast<kernels::TileWork*>(base + layout.tiles),
          reinterpret_cast<kernels::RowGap*>(base + layout.gaps)};
}

kernels::MaskArguments mask_arguments(const Mask& mask) {
  kernels::MaskArguments arguments;
  arguments.bottom_right = mask.alignment == Alignment::bottom_right ? 1 : 0;
  arguments.hstu_causal = mask.hstu_causal ? 1 : 0;
  arguments.left = argument_of(mask.left);
  arguments.right = argument_of(mask.right);
  arguments.contextual = argument_of(mask.contextual);
  arguments.targets = argument_of(mask.targets);
  arguments.target_group = argument_of(mask.target_group);
  arguments.max_attention_length = argument_of(mask.max_attention_length);
  arguments.min_full_attention = argument_of(mask.min_full_attention);
  arguments.prefix = argument_of(mask.prefix);
  arguments.local = argument_of(mask.local);
  arguments.block = argument_of(mask.block);
  if (mask.intervals.present()) {
    arguments.intervals = static_cast<const int*>(mask.intervals.data);
    arguments.interval_row_stride = mask.intervals.strides[0];
    arguments.interval_stride = mask.intervals.strides[1];
    arguments.interval_bounds = static_cast<int>(mask.intervals.shape[1]);
  }
  return arguments;
}

std::string plan_entry(MaskKind mask) {
  return fmt::format("jfa::kernels::plan<jfa::kernels::MaskParameters::{}>", kernel_name(mask));
}

void launch_plan(Gpu& gpu, const AttentionArgs& args, const PlanShape& shape,
                 const PlanLayout& layout, void* memory, runtime::StreamHandle stream) {
  const PlanParts parts = plan_parts(layout, memory);
  kernels::PlanArguments arguments;
  arguments.q = {integers_of(args.q_sequences.offsets), integers_of(args.q_sequences.used_lengths),
                 static_cast<int>(shape.q_rows), static_cast<int>(shape.q_sequence_rows)};
  arguments.kv = {integers_of(args.kv_sequences.offsets),
                  integers_of(args.kv_sequences.used_lengths), static_cast<int>(shape.kv_rows),
                  static_cast<int>(shape.kv_sequence_rows)};
  arguments.kv_map = integers_of(args.kv_map);
  arguments.batch = static_cast<int>(shape.batch);
  arguments.kv_batch = static_cast<int>(shape.kv_batch);
  arguments.out_rows = static_cast<int>(shape.out_rows);
  arguments.tile_tokens = shape.tile_tokens;
  arguments.key_block = shape.key_block;
  arguments.packs = shape.packs ? 1 : 0;
  arguments.sequences_together = shape.few_long ? 0 : 1;
  arguments.last_tile_first = shape.mask != MaskKind::full && !shape.few_long ? 1 : 0;
  arguments.most_tiles = static_cast<int>(layout.most_tiles);
  arguments.most_gaps = static_cast<int>(layout.most_gaps);
  arguments.counter_slots = kCounterSlots;
  arguments.header = parts.header;
  arguments.counters = parts.counters;
  arguments.sequences = parts.sequences;
  arguments.tiles = parts.tiles;
  arguments.gaps = parts.gaps;
  arguments.mask = mask_arguments(args.mask);
  const kernels::PlanLaunch launch = kernels::plan_launch(arguments.batch);
  arguments.section = launch.section;
  const auto blocks = static_cast<unsigned>(launch.blocks);
  gpu.plan_kernel(shape.mask)
      .launch({.grid = {blocks},
               .block = {static_cast<unsigned>(launch.threads)},
               .cluster = {blocks},
               .dynamic_shared_bytes = static_cast<unsigned>(launch.shared_bytes),
               .overlap_previous = true,
               .stream = stream},
              arguments);
}

}  // namespace jfa::gpu
