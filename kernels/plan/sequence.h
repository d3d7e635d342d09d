// One sequence, resolved from the arguments of the plan. Host and device run this same code.
#pragma once

#include "plan/plan.h"
#include "plan/plan_arguments.h"

namespace jfa::kernels {

JFA_HOST_DEVICE constexpr int clamped(long long value, int least, int most) {
  return static_cast<int>(value < least ? least : value > most ? most : value);
}

// The rows that a sequence owns and the number of those it uses.
struct Segment {
  int first = 0;
  int used = 0;
  int end = 0;
};

// What memory says of a sequence: all loads are under way before the first value is looked at.
struct SegmentNumbers {
  long long first = 0, end = 0, used = 0;
};

JFA_HOST_DEVICE constexpr SegmentNumbers numbers_of(const SequenceSide& side, int sequence) {
  SegmentNumbers numbers;
  if (side.offsets.present()) {
    numbers.first = side.offsets.at(sequence);
    numbers.end = side.offsets.at(sequence + 1LL);
  } else {
    numbers.first = static_cast<long long>(sequence) * side.sequence_rows;
    numbers.end = numbers.first + side.rows;
  }
  numbers.used = side.used.present() ? side.used.at(sequence) : numbers.end;
  return numbers;
}

// Offsets that decrease or leave the tensor give fewer rows, never others than the tensor's.
JFA_HOST_DEVICE constexpr Segment segment_of(const SequenceSide& side,
                                             const SegmentNumbers& numbers) {
  const int rows = side.offsets.present() ? side.rows : clamped(numbers.end, 0, 1 << 30);
  Segment segment;
  segment.first = clamped(numbers.first, 0, rows);
  segment.end = clamped(numbers.end, segment.first, rows);
  segment.used = clamped(numbers.used, 0, segment.end - segment.first);
  return segment;
}

struct Sequence {
  SequenceRows rows;
  int out_end = 0;  // of the rows in out that it owns
};

// The first row in out of sequence `b`, whose first row in q is given.
JFA_HOST_DEVICE constexpr int out_first_of(const PlanArguments& p, int b, int q_first) {
  return p.q.offsets.present() ? q_first : b * p.q.rows;
}

JFA_HOST_DEVICE constexpr Sequence sequence_of(const PlanArguments& p, int b) {
  const SegmentNumbers q_numbers = numbers_of(p.q, b);
  SegmentNumbers kv_numbers;  // without key sequences no rows
  if (p.kv_batch > 0) {
    const long long index = p.kv_map.present() ? p.kv_map.at(b) : b;
    kv_numbers = numbers_of(p.kv, clamped(index, 0, p.kv_batch - 1));
  }
  const Segment q = segment_of(p.q, q_numbers), kv = segment_of(p.kv, kv_numbers);
  const int out_first = out_first_of(p, b, q.first);
  return {{q.first, q.used, kv.first, kv.used, out_first, {}}, out_first + q.end - q.first};
}

// Whether the rows of `next` begin where those of `before` end, in every tensor.
JFA_HOST_DEVICE constexpr bool follows(const SequenceRows& before, const SequenceRows& next) {
  return next.q_first == before.q_first + before.q_length &&
         next.k_first == before.k_first + before.k_length &&
         next.out_first == before.out_first + before.q_length;
}

// Longer sequences have tiles of their own: they fill a compute warpgroup.
constexpr int kPackedLength = 64;

JFA_HOST_DEVICE constexpr PlanRules device_rules(const PlanArguments& p) {
  PlanRules rules;
  rules.tile_rows = p.tile_tokens;
  rules.pack_rows = p.packs != 0 ? p.tile_tokens : 0;
  rules.pack_length = kPackedLength;
  rules.pack_sequences = kPackedSequences;
  rules.pack_section = smaller(p.section, kPackSection);
  rules.equal_cut = 0;
  rules.last_tile_first = p.last_tile_first;
  return rules;
}

// Work is counted in key blocks of half a tile; above 2^16 of them all are "most".
JFA_HOST_DEVICE constexpr int class_of_work(int half_blocks) {
  const int c = work_class(half_blocks) - (kWorkClasses - kTileClasses);
  return c < 0 ? 0 : c;
}

// What the work list is sorted by. Tiles of one sequence have one class where sequences stay
// together.
JFA_HOST_DEVICE constexpr int tile_class(const PlanArguments& p, const TileWork& tile) {
  const auto blocks = [&](int keys) { return (keys + p.key_block - 1) / p.key_block; };
  if (p.sequences_together != 0)
    return class_of_work(2 * blocks(tile.sequences > 1 ? tile.k_end : tile.k_length));
  const int keys = tile.k_end - tile.k_begin - (tile.gap_end - tile.gap_begin);
  return class_of_work(blocks(keys) * (tile.rows * 2 > p.tile_tokens ? 2 : 1));
}

// Rows of out in front of the first sequence, [0, front), and behind the last one, [back, rows).
struct OuterGaps {
  int front = 0;
  int back = 0;
};
JFA_HOST_DEVICE constexpr OuterGaps outer_gaps(const PlanArguments& p) {
  if (p.batch == 0) return {p.out_rows, p.out_rows};
  if (!p.q.offsets.present()) return {0, p.out_rows};
  const SegmentNumbers first = numbers_of(p.q, 0), last = numbers_of(p.q, p.batch - 1);
  return {segment_of(p.q, first).first, segment_of(p.q, last).end};
}

JFA_HOST_DEVICE constexpr int gap_pieces(int rows) {
  return (rows + kGapRows - 1) / kGapRows;
}

}  // namespace jfa::kernels
