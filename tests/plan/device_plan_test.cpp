// The plan kernel on every device that runs sm_90a code, compared with the host's walk over the
// same rules and with the meaning of offsets, used lengths and maps spelled out here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "device/available.hpp"
#include "jfa/runtime.hpp"
#include "plan/sequence.h"
#include "plan/tile_keys.h"

namespace jfa {
namespace {

using kernels::MaskParameters;
using kernels::PlanArguments;
using kernels::PlanHeader;
using kernels::RowGap;
using kernels::SequenceRows;
using kernels::TileWork;
using kernels::WorkCounters;
using Numbers = std::vector<long long>;

// One side of a batch, in host memory. Without offsets: dense (or broadcast) of `sequences`.
struct Side {
  std::optional<Numbers> offsets;
  std::optional<Numbers> used;
  int rows = 0;
  int sequence_rows = 0;
};

struct Batch {
  Side q, kv;
  std::optional<Numbers> kv_map;
  int batch = 0, kv_batch = 0;
  int kind = MaskParameters::full;
  kernels::MaskArguments mask;
  std::vector<int> intervals;  // two bounds a row of out
  int tile_tokens = 128, key_block = 128, packs = 1;
  int sequences_together = 1, last_tile_first = 0;
  bool wide = false;     // int64
  long long stride = 1;  // of offsets and all other numbers

  int out_rows() const { return q.offsets ? q.rows : batch * q.rows; }
};

Batch self_attention(const Numbers& lengths) {
  Numbers offsets{0};
  for (const long long length : lengths) offsets.push_back(offsets.back() + length);
  Batch batch;
  batch.q.rows = static_cast<int>(offsets.back());
  batch.q.offsets = offsets;
  batch.kv = batch.q;
  batch.batch = batch.kv_batch = static_cast<int>(lengths.size());
  return batch;
}

struct PlanResult {
  PlanHeader header{};
  std::vector<WorkCounters> counters;
  std::vector<SequenceRows> sequences;
  std::vector<TileWork> tiles;  // as many as there is room for
  std::vector<RowGap> gaps;
};

constexpr std::array kKinds = {"full",         "causal", "window",   "hstu",
                               "prefix_local", "blocks", "intervals"};

// What tests/plan/plan_test.cpp calls a batch, with the sequences as the device resolves them.
struct ResolvedBatch {
  const PlanArguments& arguments;
  std::vector<SequenceRows> sequences;

  explicit ResolvedBatch(const PlanArguments& p) : arguments(p) {
    for (int b = 0; b < p.batch; ++b) sequences.push_back(kernels::sequence_of(p, b).rows);
  }
  const SequenceRows& at(long long b) const { return sequences[static_cast<std::size_t>(b)]; }
  long long batch() const { return arguments.batch; }
  long long q_length(long long b) const { return at(b).q_length; }
  long long k_length(long long b) const { return at(b).k_length; }
  long long row_follows(long long b) const {
    return b > 0 && kernels::follows(at(b - 1), at(b)) ? 1 : 0;
  }
  kernels::RowIntervals intervals(long long b, long long) const { return {0, k_length(b), 0, 0}; }
};

template <int kKind>
kernels::TileKeys keys_of(const PlanArguments& p, const SequenceRows& rows, long long sequence,
                          long long first, long long count) {
  return kernels::tile_keys<kKind>(p.mask, sequence, first, count, rows.out_first + first,
                                   rows.q_length, rows.k_length, p.key_block);
}

kernels::TileKeys keys_of(int kind, const PlanArguments& p, const SequenceRows& rows,
                          long long sequence, long long first, long long count) {
  switch (kind) {
    case MaskParameters::causal:
      return keys_of<MaskParameters::causal>(p, rows, sequence, first, count);
    case MaskParameters::window:
      return keys_of<MaskParameters::window>(p, rows, sequence, first, count);
    case MaskParameters::hstu:
      return keys_of<MaskParameters::hstu>(p, rows, sequence, first, count);
    case MaskParameters::prefix_local:
      return keys_of<MaskParameters::prefix_local>(p, rows, sequence, first, count);
    case MaskParameters::blocks:
      return keys_of<MaskParameters::blocks>(p, rows, sequence, first, count);
    case MaskParameters::intervals:
      return keys_of<MaskParameters::intervals>(p, rows, sequence, first, count);
    default:
      return keys_of<MaskParameters::full>(p, rows, sequence, first, count);
  }
}

auto fields(const TileWork& t) {
  return std::tuple(t.sequence, t.q_offset, t.sequences, t.rows, t.q_first, t.out_first, t.k_first,
                    t.k_begin, t.k_end, t.gap_begin, t.gap_end, t.full_begin, t.full_end,
                    t.q_length, t.k_length);
}
auto fields(const SequenceRows& s) {
  return std::tuple(s.q_first, s.q_length, s.k_first, s.k_length, s.out_first);
}

// The host's plan, in batch order.
std::vector<TileWork> host_tiles(int kind, const PlanArguments& p) {
  const ResolvedBatch batch(p);
  std::vector<TileWork> tiles;
  kernels::for_each_tile(batch, kernels::device_rules(p), [&](const kernels::Tile& tile) {
    const SequenceRows& first = batch.at(tile.first_sequence);
    const SequenceRows& last = batch.at(tile.first_sequence + tile.sequences - 1);
    TileWork work{};
    work.sequence = static_cast<int>(tile.first_sequence);
    work.sequences = static_cast<int>(tile.sequences);
    work.q_offset = static_cast<int>(tile.first_row);
    work.rows = static_cast<int>(tile.rows);
    work.q_first = first.q_first + work.q_offset;
    work.out_first = first.out_first + work.q_offset;
    work.k_first = first.k_first;
    work.q_length = first.q_length;
    work.k_length = first.k_length;
    kernels::TileKeys keys;
    if (tile.sequences == 1) {
      keys = keys_of(kind, p, first, tile.first_sequence, tile.first_row, tile.rows);
    } else {
      keys.end = last.k_first + last.k_length - first.k_first;
      keys.gap_begin = keys.gap_end = keys.end;
    }
    work.k_begin = static_cast<int>(keys.begin);
    work.k_end = static_cast<int>(keys.end);
    work.gap_begin = static_cast<int>(keys.gap_begin);
    work.gap_end = static_cast<int>(keys.gap_end);
    work.full_begin = static_cast<int>(keys.full_begin);
    work.full_end = static_cast<int>(keys.full_end);
    tiles.push_back(work);
  });
  return tiles;
}

// Work that decides the order: key blocks of half a tile, in steps of an eighth of an octave; of
// the whole sequence, or of the tile itself.
int octave_eighth(const Batch& batch, const TileWork& tile) {
  const bool together = batch.sequences_together != 0;
  const int seen = tile.k_end - tile.k_begin - (tile.gap_end - tile.gap_begin);
  const int keys = !together ? seen : tile.sequences > 1 ? tile.k_end : tile.k_length;
  const int blocks = (keys + batch.key_block - 1) / batch.key_block;
  return kernels::work_class(blocks * (together || tile.rows * 2 > batch.tile_tokens ? 2 : 1));
}

// Tiles with half the work of a full tile of the longest sequence, to an eighth of an octave.
long long long_tiles(const Batch& batch, int longest, const std::vector<TileWork>& tiles) {
  const int half = kernels::work_class((longest + batch.key_block - 1) / batch.key_block);
  return std::count_if(tiles.begin(), tiles.end(),
                       [&](const TileWork& tile) { return octave_eighth(batch, tile) <= half; });
}

class DevicePlan : public testing::TestWithParam<const char*> {
 protected:
  static constexpr int kCounterSlots = 5;
  static constexpr int kGuard = 0x5A;

  void SetUp() override {
    if (const auto reason = test::why_skipped(GetParam(), context_)) GTEST_SKIP() << *reason;
    if (context_->info().architecture != "sm_90a") GTEST_SKIP() << "needs a Hopper GPU";
  }

  template <typename T>
  void* upload(const std::vector<T>& values) {
    buffers_.emplace_back(*context_, std::max<std::size_t>(values.size(), 1) * sizeof(T));
    context_->copy(buffers_.back().data(), values.data(), values.size() * sizeof(T));
    context_->synchronize();
    return buffers_.back().data();
  }

  // `host` lists the numbers for the oracle, the result points into device memory.
  kernels::IntegerArray array(const Batch& batch, const std::optional<Numbers>& numbers,
                              bool device) {
    if (!numbers) return {};
    const auto stride = static_cast<std::size_t>(batch.stride);
    Numbers spread(numbers->size() * stride, -1234567);
    for (std::size_t i = 0; i < numbers->size(); ++i) spread[i * stride] = (*numbers)[i];
    kernels::IntegerArray result;
    result.stride = batch.stride;
    result.wide = batch.wide ? 1 : 0;
    if (!batch.wide) {
      const std::vector<int> narrow(spread.begin(), spread.end());
      result.data = device ? upload(narrow) : keep(host_narrow_, narrow);
    } else {
      result.data = device ? upload(spread) : keep(host_wide_, spread);
    }
    return result;
  }
  template <typename T>
  static const void* keep(std::vector<std::vector<T>>& kept, const std::vector<T>& values) {
    kept.push_back(values);
    kept.back().reserve(1);
    return kept.back().data();
  }

  PlanArguments arguments(const Batch& batch, bool device) {
    PlanArguments p;
    const auto side = [&](const Side& from) {
      kernels::SequenceSide to;
      to.offsets = array(batch, from.offsets, device);
      to.used = array(batch, from.used, device);
      to.rows = from.rows;
      to.sequence_rows = from.sequence_rows;
      return to;
    };
    p.q = side(batch.q);
    p.kv = side(batch.kv);
    p.kv_map = array(batch, batch.kv_map, device);
    p.batch = batch.batch;
    p.kv_batch = batch.kv_batch;
    p.out_rows = batch.out_rows();
    p.tile_tokens = batch.tile_tokens;
    p.key_block = batch.key_block;
    p.packs = batch.packs;
    p.sequences_together = batch.sequences_together;
    p.last_tile_first = batch.last_tile_first;
    const int tile = batch.tile_tokens;
    p.most_tiles = batch.q.offsets ? (p.out_rows + tile - 1) / tile + p.batch
                                   : p.batch * ((batch.q.rows + tile - 1) / tile);
    p.most_gaps = p.batch + 1 + (p.out_rows + kernels::kGapRows - 1) / kernels::kGapRows;
    p.counter_slots = kCounterSlots;
    p.section = kernels::plan_launch(p.batch).section;
    p.mask = batch.mask;
    if (batch.kind == MaskParameters::intervals) {
      p.mask.intervals = static_cast<const int*>(device ? upload(batch.intervals)
                                                        : keep(host_narrow_, batch.intervals));
      p.mask.interval_row_stride = 2;
      p.mask.interval_stride = 1;
    }
    return p;
  }

  template <typename T>
  T* guarded(int count) {
    buffers_.emplace_back(*context_, static_cast<std::size_t>(count + 1) * sizeof(T));
    context_->fill(buffers_.back().data(), kGuard, buffers_.back().bytes());
    return static_cast<T*>(buffers_.back().data());
  }
  template <typename T>
  std::vector<T> download(const T* device, int count) {
    std::vector<T> values(static_cast<std::size_t>(count + 1));
    context_->copy(values.data(), device, values.size() * sizeof(T));
    context_->synchronize();
    T guard;
    std::memset(&guard, kGuard, sizeof guard);
    EXPECT_EQ(std::memcmp(&values.back(), &guard, sizeof guard), 0) << "written behind the end";
    values.pop_back();
    return values;
  }

  PlanResult run(const Batch& batch) {
    buffers_.clear();
    PlanArguments p = arguments(batch, true);
    p.header = guarded<PlanHeader>(1);
    p.counters = guarded<WorkCounters>(kCounterSlots);
    p.sequences = guarded<SequenceRows>(p.batch);
    p.tiles = guarded<TileWork>(p.most_tiles);
    p.gaps = guarded<RowGap>(p.most_gaps);
    const kernels::PlanLaunch launch = kernels::plan_launch(p.batch);
    const auto blocks = static_cast<unsigned>(launch.blocks);
    context_
        ->kernel("plan/plan.cu", std::string("jfa::kernels::plan<jfa::kernels::MaskParameters::") +
                                     kKinds[static_cast<std::size_t>(batch.kind)] + ">")
        .launch({.grid = {blocks},
                 .block = {static_cast<unsigned>(launch.threads)},
                 .cluster = {blocks},
                 .dynamic_shared_bytes = static_cast<unsigned>(launch.shared_bytes)},
                p);
    PlanResult result;
    result.header = download(p.header, 1)[0];
    result.counters = download(p.counters, kCounterSlots);
    result.sequences = download(p.sequences, p.batch);
    result.tiles = download(p.tiles, p.most_tiles);
    result.gaps = download(p.gaps, p.most_gaps);
    EXPECT_LE(result.header.tiles, p.most_tiles);
    EXPECT_LE(result.header.gaps, p.most_gaps);
    result.tiles.resize(static_cast<std::size_t>(result.header.tiles));
    result.gaps.resize(static_cast<std::size_t>(result.header.gaps));
    return result;
  }

  // Runs the plan and compares everything with the host. `right`: the offsets are.
  PlanResult expect_plan(const Batch& batch, bool right = true) {
    PlanResult result = run(batch);
    host_narrow_.clear();
    host_wide_.clear();
    host_narrow_.reserve(8);
    host_wide_.reserve(8);
    const PlanArguments host = arguments(batch, false);
    int longest = 0;
    for (int b = 0; b < batch.batch; ++b) {
      const SequenceRows expected = kernels::sequence_of(host, b).rows;
      EXPECT_EQ(fields(result.sequences[static_cast<std::size_t>(b)]), fields(expected))
          << "sequence " << b;
      longest = std::max(longest, expected.k_length);
    }
    EXPECT_EQ(result.header.longest_keys, longest);
    EXPECT_EQ(result.header.long_tiles, long_tiles(batch, longest, result.tiles));
    for (const WorkCounters& counters : result.counters) {
      EXPECT_EQ(counters.next, 0U);
      EXPECT_EQ(counters.finished, 0U);
    }
    if (right) {
      expect_tiles(batch, host_tiles(batch.kind, host), result.tiles);
      expect_every_row_once(batch, result);
    } else {
      expect_in_bounds(batch, result);
    }
    return result;
  }

  // The tiles of the host's plan, stably sorted by work.
  static void expect_tiles(const Batch& batch, std::vector<TileWork> expected,
                           std::vector<TileWork> tiles) {
    ASSERT_EQ(tiles.size(), expected.size());
    const auto less = [&](const TileWork& a, const TileWork& b) {
      return octave_eighth(batch, a) < octave_eighth(batch, b);
    };
    EXPECT_TRUE(std::is_sorted(tiles.begin(), tiles.end(), less)) << "not longest first";
    std::stable_sort(expected.begin(), expected.end(), less);
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      ASSERT_EQ(fields(tiles[i]), fields(expected[i])) << "tile " << i;
    }
  }

  static void expect_every_row_once(const Batch& batch, const PlanResult& result) {
    std::vector<int> owners(static_cast<std::size_t>(batch.out_rows()));
    const auto own = [&](int first, int rows) {
      ASSERT_GE(first, 0);
      ASSERT_GE(rows, 1);
      ASSERT_LE(first + rows, batch.out_rows());
      for (int row = first; row < first + rows; ++row) ++owners[static_cast<std::size_t>(row)];
    };
    for (const TileWork& tile : result.tiles) own(tile.out_first, tile.rows);
    for (const RowGap& gap : result.gaps) {
      own(gap.first, gap.rows);
      EXPECT_LE(gap.rows, kernels::kGapRows);
    }
    for (std::size_t row = 0; row < owners.size(); ++row) {
      ASSERT_EQ(owners[row], 1) << "row " << row;
    }
  }

  static void expect_in_bounds(const Batch& batch, const PlanResult& result) {
    const int k_rows = batch.kv.offsets ? batch.kv.rows : 1 << 29;
    for (const TileWork& tile : result.tiles) {
      ASSERT_GE(tile.rows, 1);
      ASSERT_LE(tile.rows, batch.tile_tokens);
      ASSERT_GE(tile.q_first, 0);
      ASSERT_GE(tile.out_first, 0);
      ASSERT_LE(tile.out_first + tile.rows, batch.out_rows());
      ASSERT_GE(tile.k_begin, 0);
      ASSERT_LT(tile.k_begin, tile.k_end);
      ASSERT_LE(tile.k_first + tile.k_end, k_rows);
    }
    for (const RowGap& gap : result.gaps) {
      ASSERT_GE(gap.first, 0);
      ASSERT_GE(gap.rows, 1);
      ASSERT_LE(gap.first + gap.rows, batch.out_rows());
    }
  }

  // Lengths like those of users: many short ones, some empty, a few long ones.
  Numbers draw_lengths(int batch, int longest) {
    Numbers lengths;
    for (int b = 0; b < batch; ++b) {
      const int kind = draw(0, 9);
      lengths.push_back(kind == 0 ? 0 : kind < 8 ? draw(1, 40) : draw(1, longest));
    }
    return lengths;
  }
  int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  std::mt19937_64 random_{std::random_device{}()};
  runtime::Context* context_ = nullptr;
  std::vector<runtime::Buffer> buffers_;
  std::vector<std::vector<int>> host_narrow_;
  std::vector<Numbers> host_wide_;
};

TEST_P(DevicePlan, OfAnEmptyBatchIsEmpty) {
  Batch batch = self_attention({});
  EXPECT_EQ(expect_plan(batch).header.tiles, 0);
  batch.q.rows = 1000;  // slack alone
  EXPECT_EQ(expect_plan(batch).header.gaps, 4);
  Batch dense;
  dense.q.rows = dense.q.sequence_rows = 10;
  EXPECT_EQ(expect_plan(dense).header.tiles, 0);
}

TEST_P(DevicePlan, OfOneSequence) {
  for (const int length : {0, 1, 64, 65, 128, 129, 5000}) {
    const PlanResult result = expect_plan(self_attention({length}));
    EXPECT_EQ(result.header.tiles, (length + 127) / 128);
  }
}

TEST_P(DevicePlan, CutsLongSequencesAndPacksShortNeighbours) {
  const PlanResult result =
      expect_plan(self_attention({300, 5, 6, 0, 7, 65, 64, 63, 1, 1, 200, 0, 0, 12}));
  // 300: 128, 128, 44; 200: 128, 72; the others in batch order.
  std::vector<std::pair<int, int>> shared;
  for (const TileWork& tile : result.tiles) {
    if (tile.sequences > 1) shared.emplace_back(tile.sequence, tile.sequences);
  }
  EXPECT_EQ(shared, (std::vector<std::pair<int, int>>{{1, 4}, {6, 3}}));
  EXPECT_EQ(result.header.tiles, 3 + 1 + 1 + 1 + 1 + 2 + 1);
}

TEST_P(DevicePlan, TilesOfManySequencesHoldAtMost32) {
  const PlanResult result = expect_plan(self_attention(Numbers(200, 1)));
  EXPECT_GE(result.header.tiles, 7);
}

TEST_P(DevicePlan, StrictIsolationPacksNothing) {
  Batch batch = self_attention(Numbers(40, 3));
  batch.packs = 0;
  EXPECT_EQ(expect_plan(batch).header.tiles, 40);
}

TEST_P(DevicePlan, RowsWithoutKeysAreGapsAndEndATile) {
  Batch batch = self_attention({5, 6, 7, 300, 9});
  batch.kv.offsets = Numbers{0, 5, 5, 12, 12, 21};
  batch.kv.rows = 21;
  const PlanResult result = expect_plan(batch);
  EXPECT_EQ(result.header.tiles, 3);
  EXPECT_EQ(result.header.gaps, 3);  // 6 rows, 256 + 44 rows
}

TEST_P(DevicePlan, UsedLengthsLeaveHolesThatNoTileSpans) {
  Batch batch = self_attention({10, 20, 30, 40});
  batch.q.used = Numbers{10, 5, 30, 100};  // more than there is: all of it
  batch.kv.used = Numbers{10, 20, 0, -3};  // negative: nothing
  expect_plan(batch);
}

TEST_P(DevicePlan, OffsetsMayStartLateEndEarlyAndHaveAnyTypeAndStride) {
  for (const bool wide : {false, true}) {
    Batch batch = self_attention({10, 200, 30});
    for (auto* side : {&batch.q, &batch.kv}) {
      for (long long& offset : *side->offsets) offset += 1000;
      side->rows = 1900;
    }
    batch.wide = wide;
    batch.stride = 3;
    EXPECT_EQ(expect_plan(batch).header.gaps, 4 + 3);
  }
}

TEST_P(DevicePlan, DenseAndBroadcastSides) {
  Batch dense;
  dense.batch = dense.kv_batch = 7;
  dense.q.rows = 150;
  dense.q.sequence_rows = 160;  // rows between sequences belong to another tensor
  dense.q.used = Numbers{150, 3, 0, 128, 129, 1, 2};
  dense.kv.rows = dense.kv.sequence_rows = 50;
  expect_plan(dense);

  Batch broadcast = dense;  // every sequence has the same queries
  broadcast.q.sequence_rows = 0;
  broadcast.q.used.reset();
  broadcast.q.rows = 8;
  expect_plan(broadcast);

  Batch keys = self_attention({10, 20, 0, 300});  // and the same keys
  keys.kv = {};
  keys.kv.rows = 77;
  keys.kv_batch = 1;
  expect_plan(keys);
}

TEST_P(DevicePlan, KeyMaps) {
  Batch batch = self_attention({3, 4, 5, 200, 6});
  batch.kv.offsets = Numbers{0, 1000, 1020};
  batch.kv.rows = 1020;
  batch.kv_batch = 2;
  batch.kv_map = Numbers{0, 1, 1, 0, 1};
  expect_plan(batch);
  batch.kv_map = Numbers{-1, 1, 7, 0, 2};  // outside: the nearest
  expect_plan(batch);
}

TEST_P(DevicePlan, WrongOffsetsStayInBounds) {
  Batch batch = self_attention(Numbers(40, 100));
  for (int round = 0; round < 3; ++round) {
    for (auto* side : {&batch.q, &batch.kv}) {
      for (long long& offset : *side->offsets) offset = draw(-1000, 6000);
    }
    expect_plan(batch, false);
  }
  for (std::size_t i = 0; i < 41; ++i) (*batch.q.offsets)[i] = i % 2 == 0 ? 0 : 4000;
  expect_plan(batch, false);
  batch.wide = true;
  for (long long& offset : *batch.kv.offsets) offset = (1LL << 62) - 5;
  expect_plan(batch, false);
}

TEST_P(DevicePlan, MasksOfEveryKind) {
  for (int kind = 0; kind < static_cast<int>(kKinds.size()); ++kind) {
    Batch batch = self_attention(draw_lengths(60, 700));
    if (kind % 2 == 0) {
      batch.kv = self_attention(draw_lengths(60, 700)).kv;
    }
    batch.kind = kind;
    batch.key_block = 48;
    batch.sequences_together = draw(0, 1);
    batch.last_tile_first = draw(0, 1);
    batch.mask.bottom_right = draw(0, 1);
    batch.mask.left.value = draw(-1, 100);
    batch.mask.right.value = draw(-1, 100);
    batch.mask.contextual.value = draw(0, 5);
    batch.mask.targets.value = draw(0, 200);
    batch.mask.target_group.value = draw(1, 60);
    batch.mask.max_attention_length.value = draw(0, 100);
    batch.mask.min_full_attention.value = draw(0, 30);
    batch.mask.prefix.value = draw(0, 100);
    batch.mask.local.value = draw(0, 100);
    batch.mask.block.value = draw(1, 200);
    for (int i = 0; i < 2 * batch.out_rows(); ++i) batch.intervals.push_back(draw(-3, 700));
    expect_plan(batch);
    if (HasFailure()) FAIL() << "mask " << kKinds[static_cast<std::size_t>(kind)];
  }
}

TEST_P(DevicePlan, SequencesStayTogetherOrEveryTileHasItsPlace) {
  Batch batch = self_attention({300, 700, 301});  // tiles see 128, 256 … keys
  batch.kind = MaskParameters::causal;
  batch.last_tile_first = 1;
  std::vector<std::pair<int, int>> order;
  const auto plan = [&] {
    order.clear();
    for (const TileWork& tile : expect_plan(batch).tiles)
      order.emplace_back(tile.sequence, tile.q_offset / 128);
  };
  plan();
  EXPECT_EQ(order, (std::vector<std::pair<int, int>>{{1, 5},
                                                     {1, 4},
                                                     {1, 3},
                                                     {1, 2},
                                                     {1, 1},
                                                     {1, 0},
                                                     {0, 2},
                                                     {0, 1},
                                                     {0, 0},
                                                     {2, 2},
                                                     {2, 1},
                                                     {2, 0}}));
  batch.sequences_together = 0;
  plan();
  EXPECT_EQ(order.front(), std::pair(1, 4));  // five blocks, a whole tile; tile 5 is half a tile
  EXPECT_EQ(order.back(), std::pair(2, 0));
}

TEST_P(DevicePlan, OfManySequences) {
  for (const int batch : {63, 64, 65, 513, 1152}) {
    const PlanResult result = expect_plan(self_attention(draw_lengths(batch, 600)));
    EXPECT_GT(result.header.tiles, 0);
  }
  Batch small_tiles = self_attention(draw_lengths(300, 300));
  small_tiles.tile_tokens = 32;
  expect_plan(small_tiles);
}

TEST_P(DevicePlan, IsTheSameEveryTime) {
  const Batch batch = self_attention(draw_lengths(700, 300));
  const PlanResult first = run(batch), second = run(batch);
  ASSERT_EQ(first.tiles.size(), second.tiles.size());
  EXPECT_EQ(
      std::memcmp(first.tiles.data(), second.tiles.data(), first.tiles.size() * sizeof(TileWork)),
      0);
}

// Slow with checkers: several sections a block.
TEST_P(DevicePlan, Of70000Sequences) {
  const char* options = std::getenv("JFA_EMULATOR");
  if (std::string_view(GetParam()).starts_with("emulated") && options != nullptr &&
      std::string_view(options).find("checks=all") != std::string_view::npos) {
    GTEST_SKIP() << "on the PTX machine without checkers only";
  }
  expect_plan(self_attention(draw_lengths(70000, 100)));
}

INSTANTIATE_TEST_SUITE_P(Devices, DevicePlan, ::testing::Values("emulated:sm_90a", "cuda:0"));

}  // namespace
}  // namespace jfa
