// Keys of a tile: found from a few rows, compared with every row and key of random masks.
#include "plan/tile_keys.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace jfa::kernels {
namespace {

struct Rows {
  Index q_length, k_length, first, rows;
};

class TileKeysTest : public testing::Test {
 protected:
  Index draw(Index low, Index high) {
    return std::uniform_int_distribution<Index>(low, high)(random_);
  }

  // Small numbers more often than large ones, and what lies beyond the sequence too.
  MaskArgument draw_number(Index least) {
    MaskArgument argument;
    argument.value = draw(0, 3) == 0 ? draw(least, 300) : draw(least, 40);
    return argument;
  }

  MaskArguments draw_mask() {
    MaskArguments mask;
    mask.bottom_right = static_cast<int>(draw(0, 1));
    mask.hstu_causal = static_cast<int>(draw(0, 1));
    mask.left = draw_number(-1);
    mask.right = draw_number(-1);
    mask.contextual = draw_number(0);
    mask.targets = draw_number(0);
    mask.target_group = draw_number(1);
    mask.max_attention_length = draw_number(0);
    mask.min_full_attention = draw_number(0);
    mask.prefix = draw_number(0);
    mask.local = draw_number(0);
    mask.block = draw_number(1);
    return mask;
  }

  template <int kKind>
  void expect_keys_of_random_masks() {
    for (int round = 0; round < 4000; ++round) {
      MaskArguments mask = draw_mask();
      Rows rows{};
      rows.k_length = draw(1, 200);
      rows.q_length = draw(0, 1) == 0 ? rows.k_length : draw(1, 200);
      rows.first = draw(0, rows.q_length - 1);
      rows.rows = draw(1, std::min<Index>(rows.q_length - rows.first, 128));
      std::vector<int> bounds;
      if constexpr (kKind == MaskParameters::intervals) {
        mask.interval_bounds = draw(0, 1) == 0 ? 2 : 4;
        mask.interval_row_stride = mask.interval_bounds;
        mask.interval_stride = 1;
        for (Index i = 0; i < rows.rows * mask.interval_bounds; ++i)
          bounds.push_back(static_cast<int>(draw(-5, rows.k_length + 5)));
        mask.intervals = bounds.data() - rows.first * mask.interval_row_stride;
      }
      const Index key_block = draw(0, 1) == 0 ? 16 : draw(1, 40);
      expect_keys<kKind>(mask, rows, key_block);
      if (HasFailure()) {
        FAIL() << "kind " << kKind << ", round " << round << ": q " << rows.q_length << ", k "
               << rows.k_length << ", rows " << rows.first << " + " << rows.rows << ", block "
               << key_block;
      }
    }
  }

  template <int kKind>
  static void expect_keys(const MaskArguments& mask, const Rows& rows, Index key_block) {
    const MaskParameters parameters =
        mask_of_sequence<kKind>(mask, 0, rows.q_length, rows.k_length);
    std::vector<int> seen_by(static_cast<std::size_t>(rows.k_length));
    for (Index row = rows.first; row < rows.first + rows.rows; ++row) {
      const RowIntervals seen =
          mask_row<kKind>(mask, parameters, row, row, rows.q_length, rows.k_length);
      for (Index j = 0; j < rows.k_length; ++j) {
        if ((seen.lo0 <= j && j < seen.hi0) || (seen.lo1 <= j && j < seen.hi1))
          ++seen_by[static_cast<std::size_t>(j)];
      }
    }
    const auto count = [&](Index key) { return seen_by[static_cast<std::size_t>(key)]; };
    const TileKeys keys = tile_keys<kKind>(mask, 0, rows.first, rows.rows, rows.first,
                                           rows.q_length, rows.k_length, key_block);
    Index first = 0, end = rows.k_length;
    while (first < end && count(first) == 0) ++first;
    while (end > first && count(end - 1) == 0) --end;
    if (first == end) {
      EXPECT_EQ(keys.begin, 0);
      EXPECT_EQ(keys.end, 1);
      EXPECT_EQ(keys.gap_begin, 1);
      EXPECT_EQ(keys.gap_end, 1);
      EXPECT_EQ(keys.full_begin, keys.full_end);
      return;
    }
    EXPECT_EQ(keys.begin, first);
    EXPECT_EQ(keys.end, end);
    expect_gap<kKind>(keys, key_block, count);
    expect_full<kKind>(keys, rows, count);
  }

  template <int kKind, typename Count>
  static void expect_gap(const TileKeys& keys, Index key_block, const Count& count) {
    if (keys.gap_begin == keys.gap_end) {
      EXPECT_EQ(keys.gap_begin, keys.end);
    } else {
      EXPECT_EQ((keys.gap_begin - keys.begin) % key_block, 0);
      EXPECT_EQ((keys.gap_end - keys.gap_begin) % key_block, 0);
      EXPECT_LT(keys.begin, keys.gap_begin);
      EXPECT_LT(keys.gap_end, keys.end);
    }
    for (Index j = keys.gap_begin; j < keys.gap_end; ++j) EXPECT_EQ(count(j), 0) << "key " << j;
    // Masks of closed form leave at most one run of keys unseen in the middle.
    if constexpr (kKind == MaskParameters::intervals) return;
    Index blocks = 0;
    for (Index block = keys.begin; block + key_block <= keys.end; block += key_block) {
      bool empty = true;
      for (Index j = block; j < block + key_block; ++j) empty = empty && count(j) == 0;
      if (empty) ++blocks;
    }
    EXPECT_EQ(keys.gap_end - keys.gap_begin, blocks * key_block);
  }

  // Every row sees the full keys, and there is no longer run of such keys.
  template <int kKind, typename Count>
  static void expect_full(const TileKeys& keys, const Rows& rows, const Count& count) {
    for (Index j = keys.full_begin; j < keys.full_end; ++j)
      EXPECT_EQ(count(j), rows.rows) << "key " << j;
    if constexpr (kKind == MaskParameters::intervals) return;
    Index longest = 0, run = 0;
    for (Index j = 0; j < rows.k_length; ++j) {
      run = count(j) == rows.rows ? run + 1 : 0;
      longest = std::max(longest, run);
    }
    EXPECT_EQ(keys.full_end - keys.full_begin, longest);
  }

  std::mt19937_64 random_{std::random_device{}()};
};

TEST_F(TileKeysTest, Full) {
  expect_keys_of_random_masks<MaskParameters::full>();
}
TEST_F(TileKeysTest, Causal) {
  expect_keys_of_random_masks<MaskParameters::causal>();
}
TEST_F(TileKeysTest, Window) {
  expect_keys_of_random_masks<MaskParameters::window>();
}
TEST_F(TileKeysTest, Hstu) {
  expect_keys_of_random_masks<MaskParameters::hstu>();
}
TEST_F(TileKeysTest, PrefixLocal) {
  expect_keys_of_random_masks<MaskParameters::prefix_local>();
}
TEST_F(TileKeysTest, Blocks) {
  expect_keys_of_random_masks<MaskParameters::blocks>();
}
TEST_F(TileKeysTest, Intervals) {
  expect_keys_of_random_masks<MaskParameters::intervals>();
}

}  // namespace
}  // namespace jfa::kernels
