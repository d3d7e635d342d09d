// The work list of a batch: tiles of query rows, longest first, several short sequences in one
// tile, no empty tile. Host and device run this same code; it includes nothing but the intervals,
// so that it also compiles at run time for a GPU.
//
// A batch is any type with
//   long long batch() const;
//   long long q_length(long long b) const;   used query rows
//   long long k_length(long long b) const;   used key rows
//   long long row_follows(long long b) const; 1 when the rows of b begin where those of b − 1 end
//   RowIntervals intervals(long long b, long long row) const;
// Everything is counted in 64 bits.
#pragma once

#include "attention/intervals.h"

namespace jfa::kernels {

struct PlanRules {
  long long tile_rows = 128;  // M: most query rows of a tile
  // Sequences share a tile while their rows together stay within pack_rows; 0 packs nothing
  // (strict isolation on engines that compute a tile as one matrix).
  long long pack_rows = 128;
  int pack_contiguous = 1;  // 1: only sequences whose rows follow each other in memory share a tile
};

// Rows [first_row, first_row + rows) of one sequence, or, with sequences > 1, all rows of that many
// neighbours; sequences without query or key rows in between count but have no part in it.
struct Tile {
  long long first_sequence = 0;
  long long sequences = 0;
  long long first_row = 0;
  long long rows = 0;
  long long work = 0;  // about the (row, key) pairs that are computed, one head
};

// Pairs that rows [first, first + rows) of sequence b see, from three of them: exact for full
// masks, close for all others.
template <typename Batch>
JFA_HOST_DEVICE constexpr long long tile_work(const Batch& batch, long long b, long long first,
                                              long long rows) {
  const long long sampled = visible_keys(batch.intervals(b, first)) +
                            visible_keys(batch.intervals(b, first + rows / 2)) +
                            visible_keys(batch.intervals(b, first + rows - 1));
  return larger(rows, rows * sampled / 3);
}

template <typename Batch>
JFA_HOST_DEVICE constexpr bool has_work(const Batch& batch, long long b) {
  return batch.q_length(b) > 0 && batch.k_length(b) > 0;
}

// Calls emit(Tile) for every tile in batch order. A long sequence is cut into equal tiles (to
// within one row), so that no tile is a small remainder.
template <typename Batch, typename Emit>
JFA_HOST_DEVICE constexpr void for_each_tile(const Batch& batch, const PlanRules& rules,
                                             Emit&& emit) {
  Tile open;  // short sequences collected so far
  for (long long b = 0; b < batch.batch(); ++b) {
    if (!has_work(batch, b)) continue;
    const long long rows = batch.q_length(b);
    const bool follows = rules.pack_contiguous == 0 || batch.row_follows(b) != 0;
    if (open.rows > 0 && (open.rows + rows > rules.pack_rows || !follows)) {
      emit(open);
      open = {};
    }
    if (rows <= rules.tile_rows && rows <= rules.pack_rows) {
      if (open.rows == 0) open.first_sequence = b;
      open.sequences = b + 1 - open.first_sequence;
      open.rows += rows;
      open.work += tile_work(batch, b, 0, rows);
      continue;
    }
    const long long tiles = (rows + rules.tile_rows - 1) / rules.tile_rows;
    for (long long t = 0; t < tiles; ++t) {
      const long long first = rows / tiles * t + smaller(t, rows % tiles);
      const long long count = rows / tiles + (t < rows % tiles ? 1 : 0);
      emit(Tile{b, 1, first, count, tile_work(batch, b, first, count)});
    }
  }
  if (open.rows > 0) emit(open);
}

// Work in classes of 1/8 octave, largest first: class 0 is the most work there can be.
constexpr int kWorkClasses = 512;

JFA_HOST_DEVICE constexpr int work_class(long long work) {
  int exponent = 0;
  for (long long rest = work; rest > 1; rest >>= 1) ++exponent;
  const int eighth = exponent >= 3 ? static_cast<int>(work >> (exponent - 3)) & 7
                                   : static_cast<int>(work << (3 - exponent)) & 7;
  return kWorkClasses - 1 - (exponent * 8 + eighth);
}

// A stable counting sort by work class: order[0 … count) lists the tiles longest first, equal ones
// in batch order. `starts` is scratch of kWorkClasses + 1 numbers.
JFA_HOST_DEVICE constexpr void longest_first(const Tile* tiles, long long count, long long* order,
                                             long long* starts) {
  for (int c = 0; c <= kWorkClasses; ++c) starts[c] = 0;
  for (long long i = 0; i < count; ++i) ++starts[work_class(tiles[i].work) + 1];
  for (int c = 0; c < kWorkClasses; ++c) starts[c + 1] += starts[c];
  for (long long i = 0; i < count; ++i) order[starts[work_class(tiles[i].work)]++] = i;
}

}  // namespace jfa::kernels
