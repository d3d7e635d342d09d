// The by-value argument of the plan kernel, and how it is launched. Shared by host and device.
#pragma once

#include "attention/mask.h"
#include "attention/work.h"

namespace jfa::kernels {

// A tensor of whole numbers with one axis, or none.
struct IntegerArray {
  const void* data = nullptr;
  long long stride = 1;  // elements
  int wide = 0;          // int64, else int32

  JFA_HOST_DEVICE constexpr bool present() const { return data != nullptr; }
  JFA_HOST_DEVICE constexpr long long at(long long i) const {
    return wide != 0 ? static_cast<const long long*>(data)[i * stride]
                     : static_cast<const int*>(data)[i * stride];
  }
};

// Where the sequences of q, or of k and v, lie. Rows count from the base address of the tensor in
// its row stride.
struct SequenceSide {
  IntegerArray offsets;   // jagged: [sequences + 1]; absent otherwise
  IntegerArray used;      // used lengths, optional
  int rows = 0;           // jagged: of the tensor; dense and broadcast: of a sequence
  int sequence_rows = 0;  // dense: from one sequence to the next; broadcast: 0
};

struct PlanArguments {
  SequenceSide q, kv;
  IntegerArray kv_map;  // optional, [batch]
  int batch = 0;
  int kv_batch = 0;  // key sequences; broadcast keys: 1
  int out_rows = 0;  // rows of out: jagged q.rows, else batch · q.rows

  int tile_tokens = 128;  // query rows of a tile
  int key_block = 128;    // key rows of a block
  int packs = 1;          // short neighbours may share a tile; 0: strict isolation
  int most_tiles = 0;     // room in `tiles` and `gaps`; offsets that are wrong never exceed it
  int most_gaps = 0;
  int counter_slots = 0;

  PlanHeader* header = nullptr;
  WorkCounters* counters = nullptr;  // set to zero
  SequenceRows* sequences = nullptr;
  TileWork* tiles = nullptr;
  RowGap* gaps = nullptr;

  MaskArguments mask;
};

// Blocks of the one cluster that makes a plan, and threads of a block.
constexpr int kPlanThreads = 1024;
constexpr int kPlanBlocks = 8;
constexpr int plan_blocks(int batch) {
  constexpr int kLeastSequences = 64;  // of a block
  const int blocks = (batch + kLeastSequences - 1) / kLeastSequences;
  return blocks < 1 ? 1 : blocks > kPlanBlocks ? kPlanBlocks : blocks;
}

// Sequences that a block looks at together, a thread a sequence; only neighbours in one section
// share a tile. Whole warps of them, as equal as can be.
JFA_HOST_DEVICE constexpr int plan_section(int batch, int blocks) {
  constexpr int kWarp = 32;
  const int rounds = (batch + blocks * kPlanThreads - 1) / (blocks * kPlanThreads);
  if (rounds == 0) return kWarp;
  const int sections = blocks * rounds;
  return ((batch + sections - 1) / sections + kWarp - 1) / kWarp * kWarp;
}

}  // namespace jfa::kernels
