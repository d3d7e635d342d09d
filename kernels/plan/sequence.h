// One sequence, resolved from the arguments of the plan. Host and device run this same code.
#pragma once

#include "plan/plan.h"
#include "plan/plan_arguments.h"

namespace jfa::kernels {

// The rows that a sequence owns and the length of those it uses.
struct Segment {
  int first = 0;
  int used = 0;
  int end = 0;
};

JFA_HOST_DEVICE constexpr int clamped(long long value, int least, int most) {
  return static_cast<int>(value < least ? least : value > most ? most : value);
}

// Offsets that decrease or leave the tensor give fewer rows, never others than the tensor's.
JFA_HOST_DEVICE constexpr Segment segment_of(const SequenceSide& side, int sequence) {
  Segment segment;
  if (side.offsets.present()) {
    segment.first = clamped(side.offsets.at(sequence), 0, side.rows);
    segment.end = clamped(side.offsets.at(sequence + 1LL), segment.first, side.rows);
  } else {
    segment.first = sequence * side.sequence_rows;
    segment.end = segment.first + side.rows;
  }
  segment.used = segment.end - segment.first;
  if (side.used.present()) segment.used = clamped(side.used.at(sequence), 0, segment.used);
  return segment;
}

struct Sequence {
  SequenceRows rows;
  int out_end = 0;  // of the rows in out that it owns
};

JFA_HOST_DEVICE constexpr Sequence sequence_of(const PlanArguments& p, int b) {
  const Segment q = segment_of(p.q, b);
  const bool jagged = p.q.offsets.present();
  Sequence sequence{{q.first, q.used, 0, 0, jagged ? q.first : b * p.q.rows, {}}};
  sequence.out_end = sequence.rows.out_first + q.end - q.first;
  if (p.kv_batch == 0) return sequence;
  const long long index = p.kv_map.present() ? p.kv_map.at(b) : b;
  const Segment kv = segment_of(p.kv, clamped(index, 0, p.kv_batch - 1));
  sequence.rows.k_first = kv.first;
  sequence.rows.k_length = kv.used;
  return sequence;
}

// Whether the rows of `next` begin where those of `before` end, in every tensor.
JFA_HOST_DEVICE constexpr bool follows(const SequenceRows& before, const SequenceRows& next) {
  return next.q_first == before.q_first + before.q_length &&
         next.k_first == before.k_first + before.k_length &&
         next.out_first == before.out_first + before.q_length;
}

// Longer sequences have tiles of their own: they fill a compute warpgroup.
constexpr int kPackedLength = 64;

JFA_HOST_DEVICE constexpr PlanRules device_rules(const PlanArguments& p, int section) {
  PlanRules rules;
  rules.tile_rows = p.tile_tokens;
  rules.pack_rows = p.packs != 0 ? p.tile_tokens : 0;
  rules.pack_length = kPackedLength;
  rules.pack_sequences = kPackedSequences;
  rules.pack_section = section;
  rules.equal_cut = 0;
  return rules;
}

// Rows of out in front of the first sequence and behind the last one.
struct OuterGaps {
  int front_end = 0;
  int back_first = 0;
};
JFA_HOST_DEVICE constexpr OuterGaps outer_gaps(const PlanArguments& p) {
  if (p.batch == 0) return {p.out_rows, p.out_rows};
  if (!p.q.offsets.present()) return {0, p.out_rows};
  return {segment_of(p.q, 0).first, segment_of(p.q, p.batch - 1).end};
}

JFA_HOST_DEVICE constexpr int gap_pieces(int rows) {
  return (rows + kGapRows - 1) / kGapRows;
}

}  // namespace jfa::kernels
