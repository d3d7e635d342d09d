// What a kernel takes from the plan. Built on the device by kernels/plan, read by every kernel;
// shared by host and device.
#pragma once

namespace jfa::kernels {

// One query sequence and the keys it uses, resolved from offsets, used lengths and kv_map, whatever
// the layout. Rows count from the base address of their tensor in its row stride, less than 2²⁹;
// everything is clamped to the tensors, so that no wrong offset leads out of bounds.
struct alignas(16) SequenceRows {
  int q_first;    // first row in q
  int q_length;   // used query rows
  int k_first;    // first row in k and v
  int k_length;   // used key rows
  int out_first;  // first row in out and lse
  int padding[3];
};
static_assert(sizeof(SequenceRows) == 32);

// Up to kTileRows query rows that are contiguous in memory, and the contiguous key rows they may
// see: rows of one sequence, or all rows of several short neighbours whose rows (of q, k and out)
// follow each other in memory. Keys count from k_first.
struct alignas(16) TileWork {
  int q_first;     // first query row in q
  int out_first;   // its row in out and lse
  int rows;        // 1 … tile rows
  int k_first;     // first key row of the (first) sequence
  int k_begin;     // keys [k_begin, k_end) less [gap_begin, gap_end) are seen by some row; at least
  int k_end;       // one key, so that a tile whose rows see nothing is answered by the same code
  int gap_begin;   // k_begin + a multiple of the key block; no gap: gap_begin == gap_end == k_end
  int gap_end;     // gap_begin + a multiple of the key block
  int full_begin;  // keys [full_begin, full_end) are seen by every row: whole blocks of them need
  int full_end;    // no mask
  int sequence;    // first sequence
  int sequences;   // 1, or more when short neighbours share the tile
  int q_offset;    // row within its sequence of the first query row
  int q_length;    // of the first sequence
  int k_length;    // of the first sequence
  int padding;
};
static_assert(sizeof(TileWork) == 64);

// At most this many sequences share a tile: lane s of a warp knows sequence s.
constexpr int kPackedSequences = 32;

// Rows of out that belong to nobody: slack, holes, sequences without keys. They become zeros.
struct RowGap {
  int first;
  int rows;  // 1 … kGapRows
};
constexpr int kGapRows = 256;

// What the plan says of itself, read by kernels when they start.
struct PlanHeader {
  int tiles;         // entries of the work list
  int gaps;          // entries of the gap list
  int longest_keys;  // key rows of the longest sequence
  int long_tiles;    // tiles at the head of the list with at least half the work, as the list is
                     // sorted, of a full tile of the longest sequence
};

// Zero before the first launch; every launch leaves them zero.
struct WorkCounters {
  unsigned long long next;  // work items taken beyond the first wave
  unsigned finished;        // CTAs that found nothing left
  unsigned padding;
};

}  // namespace jfa::kernels
