// The tile language's layouts on the host: every swizzle mode, the hardware's permutation, and what
// a descriptor names.
#include "tlx/layout.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace jfa::tlx {
namespace {

constexpr u32 kRows = 64;

// A byte as the PTX ISA's table defines it: 16-byte chunk c of row r of an 8-row pattern lies at
// chunk c ^ (r mod chunks a span, counted in 128-byte lines).
u32 swizzled_by_table(Swizzle mode, u32 byte) {
  const u32 chunks = static_cast<u32>(mode) / 16;
  const u32 line = byte / 128 % 8;
  const u32 chunk = byte / 16 % 8;
  const u32 moved = (chunk & ~(chunks - 1)) | ((chunk ^ line) & (chunks - 1));
  return byte / 128 * 128 + moved * 16 + byte % 16;
}

TEST(Layout, SwizzleIsTheHardwaresPermutation) {
  for (const Swizzle mode : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
    std::set<u32> images;
    for (u32 byte = 0; byte < 4096; ++byte) {
      EXPECT_EQ(swizzled(mode, byte), swizzled_by_table(mode, byte));
      EXPECT_EQ(swizzled(mode, swizzled(mode, byte)), byte);
      images.insert(swizzled(mode, byte));
    }
    EXPECT_EQ(images.size(), 4096U);
  }
}

TEST(Layout, WidestSwizzleDividesTheRow) {
  EXPECT_EQ(widest_swizzle(128, 2), Swizzle::b128);
  EXPECT_EQ(widest_swizzle(96, 2), Swizzle::b64);
  EXPECT_EQ(widest_swizzle(80, 2), Swizzle::b32);
  EXPECT_EQ(widest_swizzle(24, 2), Swizzle::none);
}

// Elements of a tile occupy its bytes once each, whatever the swizzle.
template <u32 kColumns>
void expect_dense() {
  using Layout = TileLayout<bf16, kRows, kColumns>;
  std::vector<bool> used(Layout::kBytes / 2);
  for (u32 row = 0; row < kRows; ++row) {
    for (u32 column = 0; column < kColumns; ++column) {
      const u32 offset = Layout::offset(row, column);
      ASSERT_LT(offset, Layout::kBytes);
      ASSERT_EQ(offset % 2, 0U);
      ASSERT_FALSE(used[offset / 2]) << row << ", " << column;
      used[offset / 2] = true;
    }
  }
}

TEST(Layout, TilesAreDense) {
  expect_dense<16>();
  expect_dense<32>();
  expect_dense<64>();
  expect_dense<96>();
  expect_dense<128>();
  expect_dense<256>();
}

struct Fields {
  u32 start, leading, stride, code;
};

Fields fields_of(u64 descriptor) {
  return {static_cast<u32>(descriptor & 0x3FFF) * 16,
          static_cast<u32>(descriptor >> 16 & 0x3FFF) * 16,
          static_cast<u32>(descriptor >> 32 & 0x3FFF) * 16, static_cast<u32>(descriptor >> 62)};
}

// Walks a K-major operand as the tensor core does (rows of the span, 8-row groups `stride` apart,
// chunks swizzled on the address) and finds every element where offset() puts it.
template <u32 kColumns>
void expect_k_major() {
  using Layout = TileLayout<bf16, kRows, kColumns>;
  constexpr u32 kAddress = 3 * 1024;
  for (u32 step = 0; step < kColumns / 16; ++step) {
    const Fields fields = fields_of(Layout::k_major(kAddress, 0) + Layout::k_major_step(step));
    EXPECT_EQ(fields.code, descriptor_code(Layout::kSwizzle));
    for (u32 row = 0; row < kRows; ++row) {
      for (u32 k = 0; k < 16; ++k) {
        const u32 plain =
            fields.start + row / 8 * fields.stride + row % 8 * Layout::kSpanBytes + k * 2;
        EXPECT_EQ(swizzled(Layout::kSwizzle, plain), kAddress + Layout::offset(row, step * 16 + k))
            << "columns " << kColumns << " step " << step << " row " << row << " k " << k;
      }
    }
  }
}

TEST(Layout, KMajorDescriptorsNameTheTile) {
  expect_k_major<16>();
  expect_k_major<32>();
  expect_k_major<64>();
  expect_k_major<96>();
  expect_k_major<128>();
  expect_k_major<256>();
}

// The same for an MN-major operand: 16 rows are contracted, panels of columns lie `leading` apart.
template <u32 kColumns>
void expect_mn_major() {
  using Layout = TileLayout<bf16, kRows, kColumns>;
  constexpr u32 kAddress = 2 * 1024;
  for (u32 step = 0; step < kRows / 16; ++step) {
    const Fields fields = fields_of(Layout::mn_major(kAddress) + Layout::mn_major_step(step));
    for (u32 k = 0; k < 16; ++k) {
      for (u32 column = 0; column < kColumns; ++column) {
        const u32 plain = fields.start + column / Layout::kPanelColumns * fields.leading +
                          k / 8 * fields.stride + k % 8 * Layout::kSpanBytes +
                          column % Layout::kPanelColumns * 2;
        EXPECT_EQ(swizzled(Layout::kSwizzle, plain),
                  kAddress + Layout::offset(step * 16 + k, column));
      }
    }
  }
}

TEST(Layout, MnMajorDescriptorsNameTheTile) {
  expect_mn_major<64>();
  expect_mn_major<96>();
  expect_mn_major<128>();
  expect_mn_major<256>();
}

TEST(Layout, RowsOfAGroupStartInsideTheTile) {
  using Layout = TileLayout<bf16, 128, 128>;
  EXPECT_EQ(fields_of(Layout::k_major(0, 64)).start, 64U * 128U);
}

}  // namespace
}  // namespace jfa::tlx
