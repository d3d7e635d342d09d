// The by-value argument of the plan kernel, and how it is launched. Shared by host and device.
#pragma once

#include "attention/mask.h"
#include "attention/work.h"

namespace jfa::kernels {

// Classes of work that tiles are sorted by, and behind them that of the gap pieces.
constexpr int kTileClasses = 128;
constexpr int kPlanClasses = kTileClasses + 1;

constexpr int kMostPlanThreads = 1024;
constexpr int kMostPlanBlocks = 16;
constexpr int kPlanChunk = 32;  // sequences that a warp looks at together
// Sequences share tiles within as many neighbours: warps find the first sequence of a tile by
// following tiles from the first one of such a section.
constexpr int kPackSection = 16 * kPlanChunk;

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
  // What "longest first" sorts: 1: sequences, so that the tiles of one run at the same time and
  // find its keys in L2; 0: every tile by itself, which balances a few long sequences better.
  int sequences_together = 1;
  int last_tile_first = 0;  // in a sequence: where later rows see more keys
  int most_tiles = 0;       // room in `tiles` and `gaps`; offsets that are wrong never exceed it
  int most_gaps = 0;
  int counter_slots = 0;
  int section = kPlanChunk;  // of plan_launch()

  PlanHeader* header = nullptr;
  WorkCounters* counters = nullptr;  // set to zero
  SequenceRows* sequences = nullptr;
  TileWork* tiles = nullptr;
  RowGap* gaps = nullptr;

  MaskArguments mask;
};

// The launch of one cluster that makes a plan.
struct PlanLaunch {
  int blocks = 1;
  int threads = 256;
  int section = kPlanChunk;  // sequences that a block has in shared memory at a time
  int shared_bytes = 0;      // dynamic
};

constexpr PlanLaunch plan_launch(int batch) {
  // Measured on an H200: blocks that are alone on their multiprocessor, threads for their chunks.
  constexpr int kSequencesOfBlock = 64;
  constexpr int kMostSection = 7680;  // that fit 227 KiB of shared memory
  PlanLaunch launch;
  const auto quotient = [](int a, int b) { return (a + b - 1) / b; };
  const int wanted = quotient(batch, kSequencesOfBlock);
  const int most = batch > 512 ? kMostPlanBlocks : 8;  // more than 8 wait for a free GPC
  launch.blocks = wanted < 1 ? 1 : wanted > most ? most : wanted;
  const int share = quotient(batch, launch.blocks);
  launch.threads = share > 1024 ? kMostPlanThreads : 512;
  const int step = share > kPackSection ? kPackSection : kPlanChunk;
  launch.section = quotient(share < 1 ? 1 : share, step) * step;
  if (launch.section > kMostSection) launch.section = kMostSection;
  const int chunks = launch.section / kPlanChunk;
  const int sequence_bytes = 24, chunk_bytes = 12 + kPlanChunk;
  launch.shared_bytes = launch.section * sequence_bytes + (chunks + 1) * chunk_bytes +
                        (launch.threads / 32 * kPlanClasses) * 4;
  return launch;
}

}  // namespace jfa::kernels
