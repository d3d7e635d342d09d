// The plan of a call in device memory: what it depends on, how it lies there, and its launch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/call.hpp"
#include "attention/mask.h"
#include "attention/work.h"
#include "gpu/gpu.hpp"
#include "gpu/rows.hpp"

namespace jfa::gpu {

constexpr std::string_view kPlanSource = "plan/plan.cu";
std::string plan_entry(MaskKind mask);

// The arguments that a plan depends on, but values in device memory. Calls whose shapes agree may
// share a plan.
struct PlanShape {
  Layout q_layout = Layout::jagged;
  Layout kv_layout = Layout::jagged;
  bool q_used = false;  // whether there are used lengths
  bool kv_used = false;
  bool mapped = false;
  std::int64_t batch = 0;
  std::int64_t kv_batch = 0;
  std::int64_t q_rows = 0;  // dense and broadcast: of a sequence; jagged: of the tensor
  std::int64_t kv_rows = 0;
  std::int64_t out_rows = 0;
  std::int64_t q_sequence_rows = 0;  // dense: rows of the tensor from one sequence to the next
  std::int64_t kv_sequence_rows = 0;
  int tile_tokens = 0;    // query rows of a tile
  int key_block = 0;      // key rows of a block
  bool packs = true;      // short sequences may share a tile
  bool few_long = false;  // few sequences, long ones: tiles are sorted each by itself
  MaskKind mask = MaskKind::full;
  Alignment alignment = Alignment::bottom_right;
  bool hstu_causal = true;
  std::array<std::int64_t, 10> mask_values{};  // parameters that all sequences share

  bool operator==(const PlanShape&) const = default;
};

PlanShape plan_shape(const AttentionArgs& args, const detail::CallShape& shape,
                     const InputRows& rows, bool strict_isolation);

// Throws InvalidArgument that says where the two differ.
void require_same(const PlanShape& plan, const PlanShape& call);

// Launches that may run at the same time and use one plan.
constexpr int kCounterSlots = 64;

// Where the parts of a plan lie in its memory, bytes from its start.
struct PlanLayout {
  std::size_t counters = 0;  // kCounterSlots WorkCounters
  std::size_t sequences = 0;
  std::size_t tiles = 0;
  std::size_t gaps = 0;
  std::size_t bytes = 0;
  std::int64_t most_tiles = 0;
  std::int64_t most_gaps = 0;
};
PlanLayout plan_layout(const PlanShape& shape);

// The parts of a plan in device memory.
struct PlanParts {
  kernels::PlanHeader* header;
  kernels::WorkCounters* counters;
  kernels::SequenceRows* sequences;
  kernels::TileWork* tiles;
  kernels::RowGap* gaps;
};
PlanParts plan_parts(const PlanLayout& layout, void* memory);

kernels::MaskArguments mask_arguments(const Mask& mask);

// Writes the plan into `memory` with one launch.
void launch_plan(Gpu& gpu, const AttentionArgs& args, const PlanShape& shape,
                 const PlanLayout& layout, void* memory, runtime::StreamHandle stream);

}  // namespace jfa::gpu
