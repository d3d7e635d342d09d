// Descriptor fields, and operand layouts against an independent derivation: what a swizzled box
// copy puts where.
#include "tensor/descriptor.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace ptxemu::tensor {
namespace {

TEST(DescriptorTest, FieldsSurviveARoundTrip) {
  const MatrixDescriptor descriptor{.start_address = 0x3fff0,
                                    .leading_byte_offset = 0x120,
                                    .stride_byte_offset = 0x400,
                                    .base_offset = 5,
                                    .swizzle = SwizzleMode::bytes64};
  const std::uint64_t bits = descriptor.encode();
  EXPECT_EQ(bits, 0x3fffull | 0x12ull << 16 | 0x40ull << 32 | 5ull << 49 | 2ull << 62);
  const MatrixDescriptor decoded = MatrixDescriptor::decode(bits);
  EXPECT_EQ(decoded.start_address, descriptor.start_address);
  EXPECT_EQ(decoded.leading_byte_offset, descriptor.leading_byte_offset);
  EXPECT_EQ(decoded.stride_byte_offset, descriptor.stride_byte_offset);
  EXPECT_EQ(decoded.base_offset, descriptor.base_offset);
  EXPECT_EQ(decoded.swizzle, descriptor.swizzle);
}

TEST(DescriptorTest, NamesReservedBits) {
  EXPECT_EQ(descriptor_error(MatrixDescriptor{.stride_byte_offset = 1024}.encode()), "");
  EXPECT_NE(descriptor_error(1ull << 15 | 1ull << 61).find(" 15 61 "), std::string::npos);
}

/// Byte of (row, byte column) in a dense tile of rows of `width` bytes whose 16-byte chunks are
/// exchanged by row.
std::uint32_t tile_byte(unsigned width, unsigned row, unsigned byte) {
  const std::uint32_t linear = row * width + byte;
  const std::uint32_t chunks = width / 16 - 1;
  return linear ^ ((linear >> 7 & chunks) << 4);
}

TEST(DescriptorTest, KMajorReadsRowsOfASwizzledTile) {
  for (const auto& [mode, width] : {std::pair{SwizzleMode::bytes128, 128u},
                                    {SwizzleMode::bytes64, 64u},
                                    {SwizzleMode::bytes32, 32u}}) {
    for (unsigned step = 0; step < width; step += 32) {
      const MatrixDescriptor descriptor{
          .start_address = 4096 + step, .stride_byte_offset = 8 * width, .swizzle = mode};
      const std::vector<std::uint32_t> chunks = operand_chunks(descriptor, Major::k, 64, 2);
      ASSERT_EQ(chunks.size(), 128u);
      for (unsigned row = 0; row < 64; ++row) {
        for (unsigned c = 0; c < 2; ++c) {
          EXPECT_EQ(chunks[row * 2 + c], 4096 + tile_byte(width, row, step + 16 * c))
              << width << " row " << row;
        }
      }
    }
  }
}

TEST(DescriptorTest, MnMajorReadsColumnsOfSwizzledPanels) {
  // 16 rows of k, panels of 64 two-byte elements, one panel after the other.
  const MatrixDescriptor descriptor{.leading_byte_offset = 16 * 128,
                                    .stride_byte_offset = 8 * 128,
                                    .swizzle = SwizzleMode::bytes128};
  const std::vector<std::uint32_t> chunks = operand_chunks(descriptor, Major::mn, 128, 2);
  ASSERT_EQ(chunks.size(), 256u);
  for (unsigned k = 0; k < 16; ++k) {
    for (unsigned c = 0; c < 16; ++c) {
      EXPECT_EQ(chunks[k * 16 + c], c / 8 * 2048 + tile_byte(128, k, c % 8 * 16));
    }
  }
}

TEST(DescriptorTest, UnswizzledCoreMatricesAreContiguous) {
  const MatrixDescriptor descriptor{.leading_byte_offset = 1024, .stride_byte_offset = 128};
  const std::vector<std::uint32_t> chunks = operand_chunks(descriptor, Major::k, 64, 2);
  const std::set<std::uint32_t> unique(chunks.begin(), chunks.end());
  EXPECT_EQ(unique.size(), 128u);
  EXPECT_EQ(*unique.rbegin(), 127u * 16);
  EXPECT_EQ(chunks[2 * 9 + 1], 1024u + 128 + 16);
}

TEST(DescriptorTest, BaseOffsetShiftsThePhase) {
  const MatrixDescriptor aligned{
      .start_address = 0, .stride_byte_offset = 1024, .swizzle = SwizzleMode::bytes128};
  MatrixDescriptor shifted = aligned;
  shifted.start_address = 3 * 128;
  shifted.base_offset = 3;
  const auto a = operand_chunks(aligned, Major::k, 8, 2);
  const auto b = operand_chunks(shifted, Major::k, 8, 2);
  for (unsigned row = 0; row < 5; ++row)
    EXPECT_EQ(a[row * 2] ^ row * 128, b[row * 2] ^ (row + 3) * 128) << row;
}

TEST(DescriptorTest, AddressesWrapAt18Bits) {
  const MatrixDescriptor descriptor{
      .start_address = 0x3fff0, .leading_byte_offset = 16, .stride_byte_offset = 0x3fff0};
  for (const std::uint32_t chunk : operand_chunks(descriptor, Major::k, 256, 2))
    EXPECT_LT(chunk, 1u << 18);
}

}  // namespace
}  // namespace ptxemu::tensor
