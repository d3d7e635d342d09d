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

constexpr Index kNoLimit = 1 << 30;

struct PlanRules {
  Index tile_rows = 128;  // M: most query rows of a tile
  // Neighbours share a tile while their rows together stay within pack_rows; 0 packs nothing
  // (strict isolation on engines that compute a tile as one matrix).
  Index pack_rows = 128;
  Index pack_length = kNoLimit;     // most rows, and keys, of a sequence that shares a tile
  Index pack_sequences = kNoLimit;  // most sequences of a tile
  Index pack_section = kNoLimit;    // sequences of different sections never share a tile
  int pack_contiguous = 1;  // 1: only sequences whose rows follow each other in memory share a tile
  // 1: a long sequence is cut into equal tiles (to within one row), so that none is a small
  // remainder; 0: into full tiles and a remainder, for engines to which half a tile is half the
  // work.
  int equal_cut = 1;
  int last_tile_first = 0;  // 1: tiles of a sequence in descending order of rows
};

JFA_HOST_DEVICE constexpr bool has_work(Index q_length, Index k_length) {
  return q_length > 0 && k_length > 0;
}

// Whether a sequence may lie in a tile with others. Without rows it takes no part in the tile; with
// rows but no keys it must not lie in between where a tile is one piece of memory.
JFA_HOST_DEVICE constexpr bool may_share(const PlanRules& rules, Index q_length, Index k_length) {
  if (!has_work(q_length, k_length)) {
    return rules.pack_contiguous == 0 || (q_length == 0 && k_length <= rules.pack_length);
  }
  return q_length <= rules.tile_rows && q_length <= rules.pack_rows &&
         q_length <= rules.pack_length && k_length <= rules.pack_length;
}

// Tile `t` of the `tiles_of_rows` that a sequence of `rows` rows is cut into.
struct RowRange {
  Index first = 0;
  Index rows = 0;
};
JFA_HOST_DEVICE constexpr Index tiles_of_rows(const PlanRules& rules, Index rows) {
  return (rows + rules.tile_rows - 1) / rules.tile_rows;
}
JFA_HOST_DEVICE constexpr RowRange cut(const PlanRules& rules, Index rows, Index t) {
  if (rules.equal_cut == 0) {
    const Index first = t * rules.tile_rows;
    return {first, smaller(rules.tile_rows, rows - first)};
  }
  const Index tiles = tiles_of_rows(rules, rows);
  return {rows / tiles * t + smaller(t, rows % tiles), rows / tiles + (t < rows % tiles ? 1 : 0)};
}

// Which of its `tiles` tiles a sequence has at place `t` of the work list.
JFA_HOST_DEVICE constexpr Index tile_at_place(const PlanRules& rules, Index tiles, Index t) {
  return rules.last_tile_first != 0 ? tiles - 1 - t : t;
}

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

// Calls emit(Tile) for every tile in batch order. The plan kernel finds the same tiles in parallel.
template <typename Batch, typename Emit>
JFA_HOST_DEVICE constexpr void for_each_tile(const Batch& batch, const PlanRules& rules,
                                             Emit&& emit) {
  Tile open;  // short sequences collected so far
  for (long long b = 0; b < batch.batch(); ++b) {
    const bool works = has_work(batch, b);
    const bool shares = may_share(rules, batch.q_length(b), batch.k_length(b));
    const long long rows = works ? batch.q_length(b) : 0;
    const bool joins = shares && open.rows + rows <= rules.pack_rows &&
                       b - open.first_sequence < rules.pack_sequences &&
                       b % rules.pack_section != 0 &&
                       (rules.pack_contiguous == 0 || batch.row_follows(b) != 0);
    if (open.rows > 0 && !joins) {
      emit(open);
      open = {};
    }
    if (!works) continue;
    if (shares) {
      if (open.rows == 0) open.first_sequence = b;
      open.sequences = b + 1 - open.first_sequence;
      open.rows += rows;
      open.work += tile_work(batch, b, 0, rows);
      continue;
    }
    const Index tiles = tiles_of_rows(rules, rows);
    for (Index t = 0; t < tiles; ++t) {
      const RowRange range = cut(rules, rows, tile_at_place(rules, tiles, t));
      emit(Tile{b, 1, range.first, range.rows, tile_work(batch, b, range.first, range.rows)});
    }
  }
  if (open.rows > 0) emit(open);
}

// Work in classes of 1/8 octave, largest first: class 0 is the most work there can be.
constexpr int kWorkClasses = 512;

JFA_HOST_DEVICE constexpr int floor_log2(long long value) {
#if defined(__CUDA_ARCH__)
  return value > 1 ? 63 - __clzll(value) : 0;
#else
  int exponent = 0;
  for (long long rest = value; rest > 1; rest >>= 1) ++exponent;
  return exponent;
#endif
}

JFA_HOST_DEVICE constexpr int work_class(long long work) {
  const int exponent = floor_log2(work);
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
