// Compute role of the Hopper forward: one warpgroup, 64 query rows. Score product, mask, softmax or
// activation, value product.
#pragma once

#include "attention/sm90/forward.h"
#include "tlx/epilogue.h"
#include "tlx/named_barriers.h"

namespace jfa::kernels::sm90 {

// A sequence as seen from a tile: its rows and keys, counted from the tile's q_first and k_first.
struct SequenceInTile {
  i32 index;  // from the tile's first sequence
  i32 q_begin, q_end;
  i32 k_begin, k_end;
};

// The sequences of this thread's two rows, whose tokens in the tile are given. In a packed tile
// lane s knows sequence s, and every row looks for the last that begins before it.
TLX_DEVICE void sequences_of_rows(const ForwardArguments& p, const TileWork& tile,
                                  const i32 (&token)[2], u32 lane, SequenceInTile (&found)[2]) {
  found[0] = found[1] = {0, -tile.q_offset, tile.q_length - tile.q_offset, 0, tile.k_length};
  if (tile.sequences == 1) return;
  SequenceInTile mine{};
  if (lane < static_cast<u32>(tile.sequences)) {
    const SequenceRows rows = p.sequences[tile.sequence + lane];
    mine.q_begin = rows.q_first - tile.q_first;
    mine.q_end = mine.q_begin + rows.q_length;
    mine.k_begin = rows.k_first - tile.k_first;
    mine.k_end = mine.k_begin + rows.k_length;
  }
  for (i32 s = 1; s < tile.sequences; ++s) {
    const SequenceInTile next{s, ptx::shuffle(mine.q_begin, s), ptx::shuffle(mine.q_end, s),
                              ptx::shuffle(mine.k_begin, s), ptx::shuffle(mine.k_end, s)};
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      if (token[half] >= next.q_begin && next.q_begin < next.q_end) found[half] = next;
    }
  }
}

// This thread's two rows, and their tokens in the tile.
template <typename Config>
struct ThreadRows {
  u32 row[2];
  i32 token[2];

  TLX_DEVICE ThreadRows(u32 group, u32 thread) {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      row[half] = Accumulator<16>::row(thread, half);
      token[half] = static_cast<i32>(group * Config::kTokens + row[half] % Config::kTokens);
    }
  }
  // Whether a packed head uses the row and the tile has it.
  TLX_DEVICE bool present(u32 half, i32 tile_rows) const {
    return row[half] < Config::kUsedRows && token[half] < tile_rows;
  }
};

// Keys of one row that the tile has.
template <typename Config>
TLX_DEVICE RowKeys keys_of_row(const ForwardArguments& p, const TileWork& tile,
                               const SequenceInTile& s, i32 token) {
  if constexpr (Config::kMask == MaskParameters::full) {
    return {s.k_begin, s.k_end, s.k_end, s.k_end};
  } else {
    const i64 q_length = s.q_end - s.q_begin, k_length = s.k_end - s.k_begin;
    const i32 sequence = tile.sequence + s.index;
    const MaskParameters mask =
        mask_of_sequence<Config::kMask>(p.mask, sequence, q_length, k_length);
    const RowIntervals seen = mask_row<Config::kMask>(p.mask, mask, token - s.q_begin,
                                                      tile.out_first + token, q_length, k_length);
    return {s.k_begin + static_cast<i32>(seen.lo0), s.k_begin + static_cast<i32>(seen.hi0),
            s.k_begin + static_cast<i32>(seen.lo1), s.k_begin + static_cast<i32>(seen.hi1)};
  }
}

// Writes the keys of this warp's rows to `keys` (of the warpgroup). Rows that the tile does not
// have see everything: their queries are zeros, and what comes of them is never stored.
template <typename Config>
TLX_DEVICE void start_rows(const ForwardArguments& p, const TileWork& tile, RowKeys* keys,
                           u32 group, u32 thread) {
  const ThreadRows<Config> rows(group, thread);
  SequenceInTile sequences[2];
  sequences_of_rows(p, tile, rows.token, thread % kWarpThreads, sequences);
  ptx::warp_sync();  // the rows of the tile before have been read
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    const RowKeys seen = rows.present(half, tile.rows)
                             ? keys_of_row<Config>(p, tile, sequences[half], rows.token[half])
                             : RowKeys{0, 1 << 30, 0, 0};
    if (thread % 4 == 0) keys[rows.row[half]] = seen;
  }
  ptx::warp_sync();
}

// Factors of this thread's two rows of out. They are looked up when the tile ends: for its whole
// length they would occupy registers.
template <typename Config>
TLX_DEVICE void output_factors(const ForwardArguments& p, const TileWork& tile,
                               const ThreadRows<Config>& rows, u32 thread, float (&factor)[2]) {
  factor[0] = factor[1] =
      p.out_scale * activation_factor<Config::kActivation, typename Config::Element>(p.scale);
  if constexpr (Config::kOutScales) {
    SequenceInTile sequences[2];
    sequences_of_rows(p, tile, rows.token, thread % kWarpThreads, sequences);
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      if (!rows.present(half, tile.rows)) continue;
      const i64 index = p.out_scale_per_token != 0 ? tile.out_first + rows.token[half]
                                                   : tile.sequence + sequences[half].index;
      factor[half] *= p.out_scales[index * p.out_scales_stride];
    }
  }
}

// Online-softmax state of this thread's two rows. Sums are over this thread's columns until the
// tile ends.
struct RowState {
  float max[2];
  float sum[2];
};

// Bit e says whether element e of this thread's row lies below key `end`, which counts from the
// thread's first column: element e is key e / 2 · 8 + e % 2, 32 elements cover 128 keys.
TLX_DEVICE u32 elements_below(i32 end) {
  if (end <= 0) return 0;
  if (end >= 128 - 6) return ~0U;
  const u32 within = end % 8 < 2 ? end % 8 : 2;
  return (1U << (end / 8 * 2 + within)) - 1;
}

// Hides the keys that a row may not see. The visible elements of 128 keys are one word of bits, so
// that any mask costs one test an element and no registers for bounds.
template <typename Config, u32 kKeys>
TLX_DEVICE void mask_scores(Accumulator<kKeys>& scores, const RowKeys* row_keys, i32 first_key,
                            u32 thread) {
  constexpr float kHidden = Config::kSoftmax ? kNegativeInfinity : 0.0F;
  constexpr u32 kElements = 32;  // of a word
  const i32 column = first_key + static_cast<i32>(thread % 4 * 2);
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    const RowKeys row = row_keys[Accumulator<16>::row(thread, half)];
#pragma unroll
    for (u32 word = 0; word * kElements < kKeys / 4; ++word) {
      const i32 start = column + static_cast<i32>(word * 128);
      u32 seen = elements_below(row.high - start) & ~elements_below(row.low - start);
      if constexpr (Config::kTwoIntervals)
        seen |= elements_below(row.high2 - start) & ~elements_below(row.low2 - start);
#pragma unroll
      for (u32 e = 0; e < kElements && word * kElements + e < kKeys / 4; ++e) {
        float& score = scores.d[(word * kElements + e) / 2 * 4 + half * 2 + e % 2];
        if ((seen & (1U << e)) == 0) score = kHidden;
      }
    }
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

// Factors by which the rows of a finished tile are normalised; writes their log-sum-exp. It needs
// the last sums, not the last value product.
template <typename Config>
TLX_DEVICE void finish_rows(const ForwardArguments& p, const RowState& state, const Work& work,
                            float (&factor)[2], u32 group, u32 thread) {
  const ThreadRows<Config> rows(group, thread);
  output_factors<Config>(p, work.tile, rows, thread, factor);
  if constexpr (Config::kSoftmax) {
    constexpr float kLn2 = 0.69314718056F;
    float sum[2] = {state.sum[0], state.sum[1]}, lse[2];
#pragma unroll
    for (u32 lanes = 1; lanes <= 2; lanes *= 2) {
#pragma unroll
      for (float& s : sum) s += ptx::shuffle_xor(s, lanes);
    }
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      factor[half] = sum[half] > 0 ? factor[half] * ptx::reciprocal_approx(sum[half]) : 0;
      lse[half] = sum[half] > 0 ? (state.max[half] * p.scale + ptx::log2_approx(sum[half])) * kLn2
                                : kNegativeInfinity;
    }
    if (p.lse == nullptr || thread % 4 != 0) return;
    const i32 tile_rows = work.tile.rows, out_first = work.tile.out_first;
    const i32 head = work.head * static_cast<i32>(Config::kPacked);
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      if (!rows.present(half, tile_rows)) continue;
      const i64 lse_head = head + static_cast<i32>(rows.row[half] / Config::kTokens);
      p.lse[lse_head * p.lse_head_stride + out_first + rows.token[half]] = lse[half];
    }
  }
}

// Stages the normalised output of a finished tile for the store role.
template <typename Config>
TLX_DEVICE void stage_output(const Channels<Config>& channels, Cursor<1>& staged,
                             const Accumulator<Config::kValueDim>& out, const float (&factor)[2],
                             u32 group, u32 thread) {
  ptx::mbarrier_wait(channels.out(group).empty(0),
                     staged.parity() ^ 1);  // the store role has read the previous tile
  staged.advance();
  Accumulator<Config::kValueDim> scaled;
#pragma unroll
  for (u32 i = 0; i < out.kRegisters; ++i) scaled.d[i] = out.d[i] * factor[out.half(i)];
  store_columns<typename Config::OutTile, typename Config::Element>(channels.out_tile(group),
                                                                    scaled, 0, thread);
}

// Hands what stage_output() wrote to the store role.
template <typename Config>
TLX_DEVICE void send_output(const Channels<Config>& channels, u32 group, bool one_lane) {
  ptx::fence_proxy_async_shared();
  ptx::warp_sync();
  if (one_lane) ptx::mbarrier_arrive(channels.out(group).full(0));
}

// One compute warpgroup. It walks the flattened steps (tile, key block) of the work channel; at
// each boundary between two steps the scores of the next step and the values of the current one are
// multiplied at the same time. Boundaries inside a tile are the hot loop (steady); those between
// tiles handle every other case.
template <typename Config>
struct SoftmaxRole {
  // Group g may issue its products after synchronising on turn g with the group that passes it.
  struct Turn : NamedBarrier<2 * kWarpgroupThreads, Config::kGroups> {};
  // The warps of group g agree whether a step was exceptional.
  struct Vote : NamedBarrier<kWarpgroupThreads, Config::kGroups> {};
  using Barriers = NamedBarriers<Turn, Vote>;
  static constexpr u32 kLastGroup = Config::kGroups - 1;
  static constexpr u32 kKeys = Config::kKeys;
  static constexpr u32 kNarrow = (kKeys / 2 + 15) / 16 * 16;  // of a short last block
  using Element = typename Config::Element;

  const ForwardArguments& p;
  const Channels<Config>& channels;
  const u32 group;
  const u32 thread;  // in the warpgroup
  const bool one_lane = thread % 32 == 0;

  typename ForwardMemory<Config>::WorkChannel::Consumer work_in{channels.work};
  typename Config::Queries::Consumer queries{channels.queries(group)};
  typename Config::Keys::Consumer keys{channels.keys};
  typename Config::Values::Consumer values{channels.values};
  Cursor<1> staged{};

  Accumulator<Config::kValueDim> out;
  OperandA<Config::kKeys> probabilities;
  RowState state{};
  // The next step: its tile, and its block among the tile's blocks.
  i32 block = 0, blocks = 0;
  bool next_active = false;  // this group's part of the tile has rows
  // The current step.
  bool has_current = false, current_active = false, current_first = false;

  TLX_DEVICE bool has_next() const { return blocks != 0; }

  TLX_DEVICE void take_turn() const { Barriers::template sync<Turn>(group); }
  TLX_DEVICE void pass_turn() const {
    Barriers::template arrive<Turn>(group == kLastGroup ? 0 : group + 1);
  }

  // The work item of the next step, and, between two tiles, that of the current one.
  TLX_DEVICE const Work& next() const { return *channels.work.at(work_in.newest()); }
  TLX_DEVICE const Work& current() const { return *channels.work.at(work_in.before()); }

  // Takes the next tile, or the end.
  TLX_DEVICE void receive() {
    (void)work_in.wait();
    const i32 rows = next().tile.rows;
    next_active = rows > static_cast<i32>(group * Config::kTokens);
    block = 0;
    blocks = key_blocks<Config>(next().tile);  // 0 of the end
  }

  template <u32 kWidth>
  TLX_DEVICE void issue_scores(Accumulator<kWidth>& scores, u32 key_tile) {
    scores.pin();
    ptx::wgmma_fence();
    async_dot_nt<Element, typename Config::QueryTile, typename Config::KeyTile, Config::kDim>(
        scores, queries.tile(), 0, key_tile);
    ptx::wgmma_commit_group();
  }

  TLX_DEVICE void issue_values() {
    out.pin();
    ptx::wgmma_fence();
    async_dot_nn<Element, typename Config::ValueTile>(out, probabilities, values.tile(),
                                                      !current_first);
    ptx::wgmma_commit_group();
  }

  // The products with the next step's keys are complete: the keys go back, and after the last block
  // the queries.
  TLX_DEVICE void release_keys() const {
    keys.release(one_lane);
    if (block + 1 == blocks) queries.release(one_lane);
  }

  template <u32 kWidth>
  TLX_DEVICE void mask_block(Accumulator<kWidth>& scores) {
    const i32 key = first_key<Config>(next().tile, block);
    mask_scores<Config>(scores, channels.row_keys(group), key, thread);
  }

  // Scores of this step become probabilities in place.
  template <u32 kWidth>
  TLX_DEVICE void weigh(Accumulator<kWidth>& scores, bool masked, float (&shrink)[2]) {
    if constexpr (!Config::kSoftmax) {
#pragma unroll
      for (float& score : scores.d)
        score = activate<Config::kActivation, Element>(score, p.scale, p.leaky_slope);
    }
    if (masked) mask_block(scores);
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
    const u32 key_tile = keys.wait();
    take_turn();
    issue_scores(scores, key_tile);
    (void)values.wait();
    issue_values();
    pass_turn();
    current_first = false;
    ptx::wgmma_wait_group<1>();
    scores.pin();
  }

  // The hot loop: a boundary inside a tile; block - 1 is the current step, `block` the next. The
  // maximum is not looked for. Returns false when the step is exceptional: repeat() has to follow.
  template <u32 kWidth>
  TLX_DEVICE bool steady(bool masked) {
    Accumulator<kWidth> scores;
    multiply(scores);
    if (masked) mask_block(scores);
    float sum[2];
    const bool fits = optimistic_softmax(scores, state, sum, p.scale);
    const bool exceptional = Barriers::template any<Vote>(!fits, group);
    ptx::wgmma_wait_group<0>();
    out.pin();
    values.release(one_lane);
    if (ptx::any(exceptional)) return false;
    release_keys();
    state.sum[0] += sum[0];
    state.sum[1] += sum[1];
    pack_operand<Element>(probabilities, scores);
    ++block;
    return true;
  }

  // An exceptional step once more, with the maximum: its values are multiplied and its keys are
  // still here, so only the scores are made again.
  TLX_DEVICE void repeat() {
    Accumulator<kKeys> scores;
    issue_scores(scores, keys.tile());
    ptx::wgmma_wait_group<0>();
    scores.pin();
    release_keys();
    float shrink[2];
    weigh(scores, true, shrink);
    rescale(shrink);
    pack_operand<Element>(probabilities, scores);
    ++block;
  }

  // A boundary inside a tile for elementwise activations, which know no exception.
  template <u32 kWidth>
  TLX_DEVICE bool steady_activation(bool masked) {
    Accumulator<kWidth> scores;
    multiply(scores);
    release_keys();
    float shrink[2];
    weigh(scores, masked, shrink);
    ptx::wgmma_wait_group<0>();
    out.pin();
    values.release(one_lane);
    pack_operand<Element>(probabilities, scores);
    ++block;
    return true;
  }

  template <u32 kWidth>
  TLX_DEVICE bool step(bool masked) {
    if constexpr (Config::kSoftmax) {
      return steady<kWidth>(masked);
    } else {
      return steady_activation<kWidth>(masked);
    }
  }

  // The first block of the next tile becomes probabilities.
  TLX_DEVICE void begin_tile(Accumulator<kKeys>& scores) {
    const TileWork& tile = next().tile;
    const bool whole =
        tile.full_begin <= tile.k_begin && tile.k_begin + static_cast<i32>(kKeys) <= tile.full_end;
    float shrink[2];
    state = {{kNegativeInfinity, kNegativeInfinity}, {0, 0}};
    weigh(scores, !whole, shrink);
  }

  // A boundary between tiles. kScores: this group multiplies the first scores of the next tile;
  // kValues: the last values of the current one. A group whose part of a tile is empty still takes
  // its turns and gives the tiles back.
  template <bool kScores, bool kValues>
  TLX_DEVICE void change_tile() {
    Accumulator<kKeys> scores;
    const auto start = [&] {
      start_rows<Config>(p, next().tile, channels.row_keys(group), group, thread);
    };
    // Simple masks are worked out under the products; for the others registers do not suffice
    // there.
    if constexpr (kScores && Config::kTwoIntervals) start();
    if constexpr (kScores) (void)queries.wait();
    const u32 key_tile = has_next() ? keys.wait() : 0;
    take_turn();
    if constexpr (kScores) issue_scores(scores, key_tile);
    if (has_current) (void)values.wait();
    if constexpr (kValues) issue_values();
    if (has_next() || group != kLastGroup) pass_turn();  // nobody takes the last turn

    // In the shadow of the products: what needs neither of them.
    if constexpr (kScores && !Config::kTwoIntervals) start();
    [[maybe_unused]] float factor[2];
    if constexpr (kValues) finish_rows<Config>(p, state, current(), factor, group, thread);
    if (has_current) {
      ptx::warp_sync();  // all lanes have read the item
      work_in.release(work_in.before(), one_lane);
    }
    if constexpr (kScores) {
      ptx::wgmma_wait_group<kValues ? 1 : 0>();
      scores.pin();
      release_keys();
    } else {
      if (has_next()) keys.release(one_lane);
    }
    if constexpr (kValues) {
      ptx::wgmma_wait_group<0>();
      out.pin();
    }
    if (has_current) values.release(one_lane);
    if constexpr (kValues) stage_output<Config>(channels, staged, out, factor, group, thread);
    if constexpr (kScores) begin_tile(scores);
    if constexpr (kValues) send_output<Config>(channels, group, one_lane);
    if constexpr (kScores) pack_operand<Element>(probabilities, scores);
    block = 1;
    has_current = has_next();
    current_active = next_active;
    current_first = true;
  }

  // The remaining blocks of an active group's tile.
  TLX_DEVICE void finish_blocks() {
    constexpr i32 kBlock = kKeys;
    const TileWork& tile = next().tile;
    // Of keys with the gap closed: whole blocks of [full_begin, full_end) need no mask.
    const i32 gap = tile.gap_end - tile.gap_begin;
    const i32 begin = tile.k_begin + (tile.full_begin >= tile.gap_end ? gap : 0);
    const i32 keys_left = tile.k_end - tile.k_begin - gap;
    const bool narrow_last =
        blocks > 1 && keys_left - (blocks - 1) * kBlock <= static_cast<i32>(kNarrow);
    const i32 wide = narrow_last ? blocks - 1 : blocks;
    const i32 first_full = tile.full_begin <= begin ? 0 : ceil_div(tile.full_begin - begin, kBlock);
    const i32 end_full = tile.full_end <= begin ? 0 : (tile.full_end - begin) / kBlock;
    while (block < blocks) {
      bool fits = true;
      while (block < wide && fits) fits = step<kKeys>(block < first_full || block >= end_full);
      if (fits && narrow_last) fits = step<kNarrow>(true);
      if constexpr (Config::kSoftmax) {
        if (!fits) repeat();
      }
    }
  }

  // The same for a group whose part of the tile is empty.
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
    receive();
    if (has_next() && group == kLastGroup) pass_turn();  // group 0 goes first
    while (has_next() || has_current) {
      if (next_active && current_active) {
        change_tile<true, true>();
      } else if (next_active) {
        change_tile<true, false>();
      } else if (current_active) {
        change_tile<false, true>();
      } else {
        change_tile<false, false>();
      }
      if (!has_current) break;
      if (current_active) {
        finish_blocks();
      } else {
        skip_blocks();
      }
      receive();
    }
  }
};

}  // namespace jfa::kernels::sm90
