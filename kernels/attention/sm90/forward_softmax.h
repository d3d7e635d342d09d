// Compute role of the Hopper forward: one warpgroup, 64 query rows. Score product, mask, softmax or
// activation, value product.
#pragma once

#include "attention/sm90/forward.h"

namespace jfa::kernels::sm90 {

constexpr float kNegativeInfinity = -__builtin_bit_cast(float, 0x7f800000);  // also known to NVRTC

// Named barriers of the compute groups: group g may issue its products after synchronising on turn
// g (0 is __syncthreads).
constexpr u32 kTurnBarrier = 1;
// Barriers on which the warps of group g agree that a step was unexceptional.
constexpr u32 kVoteBarrier = 3;

// Keys that this thread's two rows may see, counted from the tile's k_first, and the range that all
// rows of the warp see.
struct RowKeys {
  i32 low[2];
  i32 high[2];
  i32 warp_low;  // keys in [warp_low, warp_high) need no mask anywhere in the warp
  i32 warp_high;
};

// Rows beyond the tile's end see everything: their zero-filled queries give finite values that are
// never stored.
template <typename Config>
TLX_DEVICE RowKeys keys_of_rows(const ForwardParameters& p, const TileWork& tile, u32 first_row,
                                u32 thread) {
  RowKeys keys;
  const u32 lane = thread % 32;
  i32 q_end = tile.q_length,
      k_end =
          tile.k_length;  // of sequence `lane` of a packed tile, counted from its first sequence
  if (tile.sequences > 1 && lane < static_cast<u32>(tile.sequences)) {
    q_end = static_cast<const i32*>(p.q_offsets)[tile.sequence + lane + 1] - tile.q_first;
    k_end = static_cast<const i32*>(p.kv_offsets)[tile.sequence + lane + 1] - tile.k_first;
  }
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    const i32 row = first_row + Accumulator<16>::row(thread, half);
    i32 q_begin = -tile.q_offset, q_stop = tile.q_length - tile.q_offset, k_begin = 0,
        k_stop = tile.k_length;
    if (tile.sequences > 1) {
      q_begin = 0, k_begin = 0;
      q_stop = ptx::shuffle(q_end, 0), k_stop = ptx::shuffle(k_end, 0);
      for (i32 s = 1; s < tile.sequences; ++s) {
        const i32 next_q = ptx::shuffle(q_end, s), next_k = ptx::shuffle(k_end, s);
        if (row >= q_stop) q_begin = q_stop, q_stop = next_q, k_begin = k_stop, k_stop = next_k;
      }
    }
    keys.low[half] = k_begin;
    keys.high[half] = k_stop;
    if constexpr (Config::kCausal) {  // bottom-right: the last query sees the last key
      const i32 diagonal = k_stop - (q_stop - row) + 1;
      keys.high[half] = diagonal < k_begin ? k_begin : diagonal < k_stop ? diagonal : k_stop;
    }
    if (row >= tile.rows) keys.low[half] = 0, keys.high[half] = 1 << 30;
  }
  keys.warp_low = ptx::warp_max(keys.low[0] > keys.low[1] ? keys.low[0] : keys.low[1]);
  keys.warp_high = ptx::warp_min(keys.high[0] < keys.high[1] ? keys.high[0] : keys.high[1]);
  return keys;
}

// Online-softmax state of this thread's two rows. Sums are over this thread's columns until the
// tile ends.
struct RowState {
  float max[2];
  float sum[2];
};

// Hides the keys that a row may not see. Blocks behind the first key of every row of the warp, the
// usual case, need one comparison an element, with a constant; the others test both ends.
template <bool kSoftmax, u32 kKeys>
TLX_DEVICE void mask_scores(Accumulator<kKeys>& scores, const RowKeys& keys, i32 first_key,
                            u32 thread) {
  constexpr float kHidden = kSoftmax ? kNegativeInfinity : 0.0F;
  const i32 column = first_key + static_cast<i32>(thread % 4 * 2);
  const i32 high[2] = {keys.high[0] - column, keys.high[1] - column};
#pragma unroll
  for (u32 i = 0; i < Accumulator<kKeys>::kRegisters; ++i) {
    const i32 key = i / 4 * 8 + i % 2;  // from `column`
    if (key >= high[Accumulator<kKeys>::half(i)]) scores.d[i] = kHidden;
  }
  if (keys.warp_low <= first_key) return;
  const i32 low[2] = {keys.low[0] - column, keys.low[1] - column};
#pragma unroll
  for (u32 i = 0; i < Accumulator<kKeys>::kRegisters; ++i) {
    const i32 key = i / 4 * 8 + i % 2;
    if (key < low[Accumulator<kKeys>::half(i)]) scores.d[i] = kHidden;
  }
}

// Turns scores into probabilities (not normalised) in place; returns the factor by which older sums
// of each row shrink. The maximum is only raised when it grew by more than 2⁸: until then
// probabilities stay below 2⁸, and the output accumulator needs no rescaling (FlashAttention-4,
// "lazy rescaling").
template <u32 kKeys>
TLX_DEVICE void online_softmax(Accumulator<kKeys>& scores, RowState& state, float (&shrink)[2],
                               float scale) {
  constexpr float kLazyLimit = 8;  // log2
  // Two chains a row for maximum and sum: with two warps a scheduler, one chain of dependent
  // additions would set the pace.
  float chain_max[2][2] = {{scores.d[0], scores.d[4]}, {scores.d[2], scores.d[6]}};
#pragma unroll
  for (u32 i = 0; i < Accumulator<kKeys>::kRegisters; ++i) {
    float& chain = chain_max[Accumulator<kKeys>::half(i)][i / 4 % 2];
    chain = ptx::max(chain, scores.d[i]);
  }
  float offset[2];
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    float block_max = ptx::max(chain_max[half][0], chain_max[half][1]);
    block_max = ptx::max(block_max, ptx::shuffle_xor(block_max, 1));
    block_max = ptx::max(block_max, ptx::shuffle_xor(block_max, 2));
    const float old_max = state.max[half];
    const bool raise = (block_max - old_max) * scale > kLazyLimit || old_max == kNegativeInfinity;
    state.max[half] = raise ? ptx::max(block_max, old_max) : old_max;
    offset[half] = state.max[half] == kNegativeInfinity ? 0 : state.max[half] * scale;
    shrink[half] = raise ? ptx::exp2_approx(old_max * scale - offset[half]) : 1;
  }
  float chain_sum[2][2] = {{state.sum[0] * shrink[0], 0}, {state.sum[1] * shrink[1], 0}};
#pragma unroll
  for (u32 i = 0; i < Accumulator<kKeys>::kRegisters; ++i) {
    const u32 half = Accumulator<kKeys>::half(i);
    scores.d[i] = ptx::exp2_approx(scores.d[i] * scale - offset[half]);
    chain_sum[half][i / 4 % 2] += scores.d[i];
  }
#pragma unroll
  for (u32 half = 0; half < 2; ++half) state.sum[half] = chain_sum[half][0] + chain_sum[half][1];
}

// The same without looking for the maximum: probabilities relative to the maximum so far, which the
// first block of a tile has set. They may exceed 1; only what does not fit is exceptional, and
// their sums, needed anyway, show it. Returns whether this thread's rows are unexceptional.
template <u32 kKeys>
TLX_DEVICE bool optimistic_softmax(Accumulator<kKeys>& scores, const RowState& state,
                                   float (&sum)[2], float scale) {
  constexpr float kLimit = 32768;  // a probability fits float16, too
  const float offset[2] = {state.max[0] * scale, state.max[1] * scale};
  float chain_sum[2][2] = {};
#pragma unroll
  for (u32 i = 0; i < Accumulator<kKeys>::kRegisters; ++i) {
    const u32 half = Accumulator<kKeys>::half(i);
    scores.d[i] = ptx::exp2_approx(scores.d[i] * scale - offset[half]);
    chain_sum[half][i / 4 % 2] += scores.d[i];
  }
  sum[0] = chain_sum[0][0] + chain_sum[0][1];
  sum[1] = chain_sum[1][0] + chain_sum[1][1];
  // False for infinities and NaN, also those of rows that have seen no key yet (offset −∞).
  return sum[0] <= kLimit && sum[1] <= kLimit;
}

// Where a tile's output goes.
struct Output {
  i32 q_first, rows, head;
};

// Normalises the output accumulator of a finished tile, stages it for the store role, and writes
// the log-sum-exp.
template <typename Config>
TLX_DEVICE void finish_tile(const ForwardParameters& p, const Channels<Config>& channels,
                            Cursor<1>& staged, const Accumulator<Config::kValueDim>& out,
                            const RowState& state, const Output& output, u32 group, u32 thread) {
  using OutTile = typename Config::OutTile;
  float factor[2] = {p.out_scale, p.out_scale};
  if constexpr (Config::kSoftmax) {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      float sum = state.sum[half];
      sum += ptx::shuffle_xor(sum, 1);
      sum += ptx::shuffle_xor(sum, 2);
      factor[half] = sum > 0 ? p.out_scale * ptx::reciprocal_approx(sum) : 0;
      const i32 row = group * 64 + Accumulator<16>::row(thread, half);
      if (p.lse != nullptr && thread % 4 == 0 && row < output.rows) {
        constexpr float kLn2 = 0.69314718056F;
        const float lse = sum > 0 ? (state.max[half] * p.scale + ptx::log2_approx(sum)) * kLn2
                                  : kNegativeInfinity;
        p.lse[output.head * p.lse_rows + output.q_first + row] = lse;
      }
    }
  }
  ptx::mbarrier_wait(channels.out(group).empty(0),
                     staged.parity ^ 1);  // the store role has read the previous tile
  staged.advance();
  const u32 lane = thread % 32;
  const u32 row = thread / 32 % 4 * 16 + lane % 16;
  const u32 tile = channels.out_tile(group);
#pragma unroll
  for (u32 step = 0; step < Config::kValueDim / 16; ++step) {
    const float* d = out.d + step * 8;
    ptx::stmatrix_x4(tile + OutTile::offset(row, step * 16 + lane / 16 * 8),
                     ptx::pack<typename Config::Element>(d[0] * factor[0], d[1] * factor[0]),
                     ptx::pack<typename Config::Element>(d[2] * factor[1], d[3] * factor[1]),
                     ptx::pack<typename Config::Element>(d[4] * factor[0], d[5] * factor[0]),
                     ptx::pack<typename Config::Element>(d[6] * factor[1], d[7] * factor[1]));
  }
  ptx::fence_proxy_async_shared();
  ptx::warp_sync();
  if (lane == 0) ptx::mbarrier_arrive(channels.out(group).full(0));
}

// One compute warpgroup. It walks the flattened steps (tile, key block) of the work channel; at
// each boundary between two steps the scores of the next step and the values of the current one are
// multiplied at the same time. Boundaries inside a tile are the hot loop (steady); those between
// tiles handle every other case.
template <typename Config>
struct SoftmaxRole {
  static constexpr u32 kTurnThreads = Config::kGroups * kWarpgroupThreads;
  static constexpr u32 kKeys = Config::kKeys;
  static constexpr u32 kNarrow = kKeys / 2;
  using Element = typename Config::Element;

  const ForwardParameters& p;
  const Channels<Config>& channels;
  const u32 group;   // 0 or 1
  const u32 thread;  // in the warpgroup
  const bool one_lane = thread % 32 == 0;

  typename SharedPlan<Config>::WorkChannel::Consumer work_in{channels.work};
  typename Config::Queries::Consumer queries{channels.queries};
  typename Config::Keys::Consumer keys{channels.keys};
  typename Config::Values::Consumer values{channels.values};
  Cursor<1> staged{};

  Accumulator<Config::kValueDim> out;
  OperandA<Config::kKeys> probabilities;
  RowState state{};
  RowKeys row_keys{};
  u32 query_tile = 0, key_tile = 0, value_tile = 0;

  // The next step: its tile, and its block among the tile's blocks.
  TileWork tile{};
  i32 head = 0, block = 0, blocks = 0;
  bool next_active = false;  // this group's half of the tile has rows
  // The current step.
  Output output{};
  bool has_current = false, current_active = false, current_first = false;

  TLX_DEVICE bool has_next() const { return tile.rows != 0; }
  TLX_DEVICE void take_turn() const { ptx::bar_sync(kTurnBarrier + group, kTurnThreads); }
  TLX_DEVICE void pass_turn() const { ptx::bar_arrive(kTurnBarrier + (group ^ 1), kTurnThreads); }

  // Takes the next tile that has keys; tiles without any are answered at once, with zeros.
  TLX_DEVICE void receive() {
    while (true) {
      const Work work = work_in.receive(one_lane);
      tile = work.tile;
      head = work.head;
      block = 0;
      blocks = key_blocks<Config>(tile);
      next_active = tile.rows > static_cast<i32>(group * 64);
      if (tile.rows == 0 || blocks != 0) return;
      if (next_active) {
        const Accumulator<Config::kValueDim> zeros{};
        finish_tile<Config>(p, channels, staged, zeros,
                            {{kNegativeInfinity, kNegativeInfinity}, {0, 0}},
                            {tile.q_first, tile.rows, head}, group, thread);
      }
    }
  }

  template <u32 kWidth>
  TLX_DEVICE void issue_scores(Accumulator<kWidth>& scores) {
    scores.pin();
    ptx::wgmma_fence();
    async_dot_nt<Element, typename Config::QueryTile, typename Config::KeyTile, Config::kDim>(
        scores, query_tile, group * 64, key_tile);
    ptx::wgmma_commit_group();
  }

  TLX_DEVICE void issue_values() {
    out.pin();
    ptx::wgmma_fence();
    async_dot_nn<Element, typename Config::ValueTile>(out, probabilities, value_tile,
                                                      !current_first);
    ptx::wgmma_commit_group();
  }

  // Scores of this step become probabilities in place.
  template <u32 kWidth>
  TLX_DEVICE void weigh(Accumulator<kWidth>& scores, bool masked, float (&shrink)[2]) {
    if constexpr (!Config::kSoftmax) {
#pragma unroll
      for (float& score : scores.d)
        score = activate<Config::kActivation>(score * p.scale, p.leaky_slope);
    }
    if (masked) {
      mask_scores<Config::kSoftmax>(scores, row_keys,
                                    tile.k_begin + block * static_cast<i32>(kKeys), thread);
    }
    if constexpr (Config::kSoftmax) {
      online_softmax(scores, state, shrink, p.scale);
      ptx::complete_before_next(state.sum[0] + state.sum[1]);
    }
  }

  TLX_DEVICE void rescale(const float (&shrink)[2]) {
    if (!ptx::any(shrink[0] != 1 || shrink[1] != 1)) return;
#pragma unroll
    for (u32 i = 0; i < Accumulator<Config::kValueDim>::kRegisters; ++i) {
      out.d[i] *= shrink[Accumulator<Config::kValueDim>::half(i)];
    }
  }

  // Both products of a boundary inside a tile; returns when the scores are there, while the values
  // are still being multiplied.
  template <u32 kWidth>
  TLX_DEVICE void multiply(Accumulator<kWidth>& scores) {
    key_tile = keys.wait();
    take_turn();
    issue_scores(scores);
    value_tile = values.wait();
    issue_values();
    pass_turn();
    current_first = false;
    ptx::wgmma_wait_group<1>();
    scores.pin();
  }

  // The hot loop: a boundary inside a tile whose next block is whole and needs no mask. Returns
  // false when the step is exceptional: it has then to be finished by redo().
  TLX_DEVICE bool steady_full() {
    Accumulator<kKeys> scores;
    multiply(scores);
    float sum[2];
    const bool fits = optimistic_softmax(scores, state, sum, p.scale);
    const bool exceptional = ptx::bar_any(kVoteBarrier + group, kWarpgroupThreads, !fits);
    ptx::wgmma_wait_group<0>();
    out.pin();
    values.release(one_lane);
    if (ptx::any(exceptional)) return false;
    keys.release(one_lane);
    state.sum[0] += sum[0];
    state.sum[1] += sum[1];
    pack_operand<Element>(probabilities, scores);
    ++block;
    return true;
  }

  // Finishes an exceptional step: its keys are still here, so the scores are made again, and
  // weighed with their maximum.
  TLX_DEVICE void redo() {
    Accumulator<kKeys> scores;
    issue_scores(scores);
    ptx::wgmma_wait_group<0>();
    scores.pin();
    keys.release(one_lane);
    float shrink[2];
    weigh(scores, false, shrink);
    rescale(shrink);
    pack_operand<Element>(probabilities, scores);
    ++block;
  }

  // A boundary inside a tile of an active group: block - 1 is the current step, `block` the next.
  template <bool kMasked, u32 kWidth>
  TLX_DEVICE void steady() {
    Accumulator<kWidth> scores;
    multiply(scores);
    keys.release(one_lane);
    float shrink[2];
    weigh(scores, kMasked, shrink);
    ptx::wgmma_wait_group<0>();
    out.pin();
    values.release(one_lane);
    if constexpr (Config::kSoftmax) rescale(shrink);
    pack_operand<Element>(probabilities, scores);
    ++block;
  }

  // A boundary between tiles. kScores: this group multiplies the first scores of the next tile;
  // kValues: the last values of the current one. A group whose half of a tile is empty still takes
  // its turns and gives the tiles back.
  template <bool kScores, bool kValues>
  TLX_DEVICE void change_tile() {
    Accumulator<kKeys> scores;
    if (has_next()) {
      query_tile = queries.wait();
      key_tile = keys.wait();
    }
    take_turn();
    if constexpr (kScores) issue_scores(scores);
    if (has_current) value_tile = values.wait();
    if constexpr (kValues) issue_values();
    pass_turn();

    float shrink[2];
    const RowState finished = state;
    if constexpr (kScores) {
      row_keys = keys_of_rows<Config>(p, tile, group * 64, thread);
      state = {{kNegativeInfinity, kNegativeInfinity}, {0, 0}};
      ptx::wgmma_wait_group<kValues ? 1 : 0>();
      scores.pin();
    }
    if (has_next()) {
      keys.release(one_lane);
      if (blocks == 1) queries.release(one_lane);
    }
    if constexpr (kScores) {
      const i32 end = tile.k_begin + static_cast<i32>(kKeys);
      weigh(scores, tile.full_begin > tile.k_begin || end > tile.full_end, shrink);
    }
    if constexpr (kValues) {
      ptx::wgmma_wait_group<0>();
      out.pin();
    }
    if (has_current) values.release(one_lane);
    if constexpr (kValues)
      finish_tile<Config>(p, channels, staged, out, finished, output, group, thread);
    if constexpr (kScores) pack_operand<Element>(probabilities, scores);
    block = 1;
    has_current = has_next();
    current_active = next_active;
    current_first = true;
    output = {tile.q_first, tile.rows, head};
  }

  // The remaining blocks of an active group's tile.
  TLX_DEVICE void finish_blocks() {
    constexpr i32 kBlock = kKeys;
    const i32 keys_left = tile.k_end - tile.k_begin;
    const bool narrow_last =
        blocks > 1 && keys_left - (blocks - 1) * kBlock <= static_cast<i32>(kNarrow);
    const i32 wide = narrow_last ? blocks - 1 : blocks;
    const i32 first_full =
        tile.full_begin <= tile.k_begin ? 0 : ceil_div(tile.full_begin - tile.k_begin, kBlock);
    const i32 end_full =
        tile.full_end <= tile.k_begin ? 0 : (tile.full_end - tile.k_begin) / kBlock;
    while (block < wide && block < first_full) steady<true, kKeys>();
    while (block < wide && block < end_full) {
      if constexpr (Config::kSoftmax) {
        bool fits = true;
        while (block < wide && block < end_full && fits) fits = steady_full();
        if (!fits) redo();
      } else {
        steady<false, kKeys>();
      }
    }
    while (block < wide) steady<true, kKeys>();
    if (narrow_last) steady<true, kNarrow>();
  }

  // The same for a group whose half of the tile is empty.
  TLX_DEVICE void skip_blocks() {
    for (; block < blocks; ++block) {
      (void)keys.wait();
      take_turn();
      (void)values.wait();
      pass_turn();
      keys.release(one_lane);
      values.release(one_lane);
    }
  }

  TLX_DEVICE void run() {
    if (group == 1) ptx::bar_arrive(kTurnBarrier, kTurnThreads);  // group 0 goes first
    while (true) {
      receive();
      if (next_active && current_active) {
        change_tile<true, true>();
      } else if (next_active) {
        change_tile<true, false>();
      } else if (current_active) {
        change_tile<false, true>();
      } else if (has_next() || has_current) {
        change_tile<false, false>();
      }
      if (!has_current) break;
      if (current_active) {
        finish_blocks();
      } else {
        skip_blocks();
      }
      if (blocks > 1) queries.release(one_lane);
    }
    if (group == 0) take_turn();  // the turn that group 1 left, so that none is pending
  }
};

}  // namespace jfa::kernels::sm90
