// The work list: every row exactly once, longest first, short sequences packed, no empty tile.
#include "plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "jfa/jfa.hpp"

namespace jfa {
namespace {

using kernels::PlanRules;
using kernels::Tile;

// Lengths of queries and keys; rows follow each other unless `gap_before` names the sequence.
struct LengthBatch {
  std::vector<long long> q;
  std::vector<long long> k;
  long long gap_before = -1;

  long long batch() const { return static_cast<long long>(q.size()); }
  long long q_length(long long b) const { return q[static_cast<std::size_t>(b)]; }
  long long k_length(long long b) const { return k[static_cast<std::size_t>(b)]; }
  long long row_follows(long long b) const { return b > 0 && b != gap_before ? 1 : 0; }
  kernels::RowIntervals intervals(long long b, long long row) const {
    return kernels::row_intervals({}, row, q_length(b), k_length(b));
  }
};

std::vector<Tile> tiles_of(const LengthBatch& batch, const PlanRules& rules) {
  std::vector<Tile> tiles;
  kernels::for_each_tile(batch, rules, [&](const Tile& tile) { tiles.push_back(tile); });
  return tiles;
}

TEST(Plan, CoversEveryRowWithWorkExactlyOnce) {
  const std::vector<long long> lengths = {0,  1, 7,   128, 129, 5,  5, 5, 1000, 64,
                                          64, 3, 127, 1,   0,   90, 0, 2, 255,  256};
  const LengthBatch batch{lengths, lengths};
  const PlanRules rules{.tile_rows = 128, .pack_rows = 128, .pack_contiguous = 1};
  std::vector<std::vector<int>> seen;
  for (const long long n : lengths) seen.emplace_back(static_cast<std::size_t>(n), 0);
  for (const Tile& tile : tiles_of(batch, rules)) {
    EXPECT_GT(tile.rows, 0);
    EXPECT_LE(tile.rows, 128);
    EXPECT_GT(tile.work, 0);
    long long packed = 0;
    for (long long n = 0; n < tile.sequences; ++n) {
      const auto b = static_cast<std::size_t>(tile.first_sequence + n);
      const long long rows = tile.sequences > 1 ? lengths[b] : tile.rows;
      for (long long i = 0; i < rows; ++i) {
        ++seen[b][static_cast<std::size_t>(tile.first_row + i)];
      }
      packed += rows;
    }
    EXPECT_EQ(packed, tile.rows);
  }
  for (const auto& rows : seen) EXPECT_THAT(rows, testing::Each(1));
}

TEST(Plan, CutsLongSequencesEvenly) {
  const auto tiles = tiles_of({{300}, {10}}, {.tile_rows = 128, .pack_rows = 128});
  ASSERT_EQ(tiles.size(), 3U);
  for (const Tile& tile : tiles) EXPECT_EQ(tile.rows, 100);
}

TEST(Plan, PacksShortNeighbours) {
  const LengthBatch batch{{5, 6, 0, 7, 200, 3}, {5, 6, 4, 7, 200, 3}};
  EXPECT_EQ(tiles_of(batch, {.tile_rows = 128, .pack_rows = 128}).front().sequences, 4);
  // Strict isolation, and a gap in memory, keep sequences apart.
  for (const Tile& tile : tiles_of(batch, {.tile_rows = 128, .pack_rows = 0})) {
    EXPECT_EQ(tile.sequences, 1);
  }
  LengthBatch gap = batch;
  gap.gap_before = 1;
  EXPECT_EQ(tiles_of(gap, {.tile_rows = 128, .pack_rows = 128}).front().sequences, 1);
}

TEST(Plan, HasNoEmptyTiles) {
  EXPECT_TRUE(tiles_of({{}, {}}, {}).empty());
  EXPECT_TRUE(tiles_of({{0, 5, 0}, {3, 0, 0}}, {}).empty());
}

TEST(Plan, OrdersLongestFirstAndKeepsBatchOrderOtherwise) {
  const LengthBatch batch{{100, 128, 100, 2, 128}, {10, 5000, 10, 2, 4999}};
  const auto tiles = tiles_of(batch, {.tile_rows = 128, .pack_rows = 0});
  std::vector<long long> order(tiles.size());
  std::vector<long long> starts(kernels::kWorkClasses + 1);
  kernels::longest_first(tiles.data(), static_cast<long long>(tiles.size()), order.data(),
                         starts.data());
  EXPECT_THAT(order, testing::ElementsAre(1, 4, 0, 2, 3));
}

TEST(Plan, CountsWorkIn64Bits) {
  const long long long_sequence = 1LL << 31;
  const LengthBatch batch{{long_sequence}, {long_sequence}};
  EXPECT_EQ(kernels::tile_work(batch, 0, 0, 128), 128 * long_sequence);
  long long last = kernels::kWorkClasses;
  for (long long work = 1; work < (1LL << 62); work *= 2) {
    const int c = kernels::work_class(work);
    EXPECT_LT(c, last);
    EXPECT_GE(c, 0);
    last = c;
  }
}

// Makes the plan of a batch of self-attention sequences with one head.
class PlanOfCall : public testing::Test {
 protected:
  Plan plan_of(std::vector<std::int64_t> offsets) {
    offsets_ = std::move(offsets);
    values_.resize(static_cast<std::size_t>(8 * offsets_.back()));
    ForwardArgs args;
    args.q = args.k = args.v = contiguous(values_.data(), DType::float32, {offsets_.back(), 1, 8});
    args.q_sequences.offsets = args.kv_sequences.offsets =
        contiguous(offsets_.data(), DType::int64, {static_cast<std::int64_t>(offsets_.size())});
    args_ = args;
    return make_plan(args);
  }

  std::vector<std::int64_t> offsets_;
  std::vector<float> values_;
  ForwardArgs args_;
};

TEST_F(PlanOfCall, StatisticsCountRowsTilesAndPairs) {
  const PlanStatistics statistics = plan_of({0, 3, 3, 10, 410}).statistics();
  EXPECT_EQ(statistics.batch, 4);
  EXPECT_EQ(statistics.empty_sequences, 1);
  EXPECT_EQ(statistics.query_rows, 410);
  EXPECT_EQ(statistics.packed_tiles, 1);
  EXPECT_EQ(statistics.tiles, 1 + (400 + statistics.tile_rows - 1) / statistics.tile_rows);
  EXPECT_EQ(statistics.visible_pairs, 9 + 49 + 160000);
  EXPECT_GE(statistics.computed_pairs, statistics.visible_pairs);
  EXPECT_EQ(statistics.padded_pairs, 4.0 * 400 * 400);
  EXPECT_NE(to_string(statistics).find("sequences"), std::string::npos);
}

TEST_F(PlanOfCall, IsRefusedForOtherOffsets) {
  const Plan plan = plan_of({0, 3, 10});
  offsets_ = {0, 4, 10};
  std::vector<float> out(values_.size());
  args_.out = contiguous(out.data(), DType::float32, {10, 1, 8});
  EXPECT_THROW(attention_forward(args_, {}, &plan), InvalidArgument);
  offsets_ = {0, 3, 10};
  EXPECT_NO_THROW(attention_forward(args_, {}, &plan));
}

}  // namespace
}  // namespace jfa
