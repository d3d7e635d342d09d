// The tensor-map codec against maps that a driver for compute capability 9.0 made, one argument
// changed at a time.
#include "tma/tensor_map.hpp"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace ptxemu::tma {
namespace {

/// bf16, 64 x 128 x 3 x 5 x 7, box 64 x 16 x 2 x 3 x 1, 128-byte swizzle.
TensorMap baseline() {
  return {.type = DataType::bf16,
          .rank = 5,
          .address = 0x7f0000000000,
          .size = {64, 128, 3, 5, 7},
          .stride = {2, 4096, 1 << 16, 1 << 20, 1 << 24},
          .box = {64, 16, 2, 3, 1},
          .element_stride = {1, 1, 1, 1, 1},
          .swizzle = Swizzle::bytes128};
}

constexpr TensorMapBits kBaselineBits = {0x00007f0000000000, 0x0000010000006540, 0x0001000000001000,
                                         0x0000000000100000, 0x0000007f0000003f, 0x0000000400000002,
                                         0x3f00000000000006, 0x000000000002010f, 0x0000000000003000,
                                         0x0000000000000400};

struct Word {
  unsigned index;
  std::uint64_t value;
};

/// A change of the baseline and the words that differ from the baseline's.
struct Record {
  std::string name;
  TensorMap map;
  std::vector<Word> words;
};

template <class Change>
Record record(std::string name, Change change, std::vector<Word> words) {
  TensorMap map = baseline();
  change(map);
  return {std::move(name), map, std::move(words)};
}

std::vector<Record> records() {
  using M = TensorMap;
  std::vector<Record> all;
  const auto add = [&](std::string name, auto change, std::vector<Word> words) {
    all.push_back(record(std::move(name), change, std::move(words)));
  };
  const auto type = [](DataType t, unsigned box) {
    return [=](M& m) { m.type = t, m.box[0] = box; };
  };
  add("baseline", [](M&) {}, {});
  add("u8", type(DataType::u8, 64), {{1, 0x0000010000006040}, {8, 0x1800}});
  add("u16", type(DataType::u16, 64), {{1, 0x00000100000060c0}});
  add("f16", type(DataType::f16, 64), {{1, 0x0000010000006340}});
  add("f32", type(DataType::f32, 16),
      {{1, 0x00000100000063c0}, {6, 0x0f00000000000006}, {8, 0x1800}});
  add("f64", type(DataType::f64, 16), {{1, 0x00000100000064c0}, {6, 0x0f00000000000006}});
  const auto rank = [](unsigned r) { return [=](M& m) { m.rank = r; }; };
  add("rank 1", rank(1),
      {{1, 0x6500}, {2, 0}, {3, 0}, {4, 0x3f}, {5, 0}, {6, 0x3f00000000000000}, {7, 0}, {8, 0x80}});
  add("rank 2", rank(2),
      {{1, 0x0000010000006510},
       {2, 0},
       {3, 0},
       {5, 0},
       {6, 0x3f00000000000000},
       {7, 0xf},
       {8, 0x800}});
  add("rank 3", rank(3),
      {{1, 0x0000010000006520},
       {2, 0x1000},
       {3, 0},
       {5, 2},
       {6, 0x3f00000000000000},
       {7, 0x10f},
       {8, 0x1000}});
  add("rank 4", rank(4), {{1, 0x0000010000006530}, {3, 0}, {6, 0x3f00000000000000}});
  const auto swizzle = [](Swizzle s) { return [=](M& m) { m.swizzle = s, m.box[0] = 8; }; };
  const Word box8{6, 0x0700000000000006}, bytes8{8, 0x600};
  add("no swizzle", swizzle(Swizzle::none), {{1, 0x0000010000000540}, box8, bytes8, {9, 0x10}});
  add("swizzle 32", swizzle(Swizzle::bytes32), {{1, 0x0000010000002540}, box8, bytes8, {9, 0x100}});
  add("swizzle 64", swizzle(Swizzle::bytes64), {{1, 0x0000010000004540}, box8, bytes8, {9, 0x200}});
  add("swizzle 128", swizzle(Swizzle::bytes128), {box8, bytes8});
  const auto l2 = [](L2Promotion p) { return [=](M& m) { m.l2_promotion = p; }; };
  add("L2 64", l2(L2Promotion::bytes64), {{1, 0x0000010000026540}});
  add("L2 128", l2(L2Promotion::bytes128), {{1, 0x0000010000046540}});
  add("L2 256", l2(L2Promotion::bytes256), {{1, 0x0000010000066540}});
  const auto interleave = [](Interleave i) {
    return [=](M& m) { m.interleave = i, m.swizzle = Swizzle::bytes32; };
  };
  add("interleave 16", interleave(Interleave::bytes16), {{1, 0x0000010000002d40}, {9, 0x100}});
  add("interleave 32", interleave(Interleave::bytes32), {{1, 0x0000010000003540}, {9, 0x100}});
  add("NaN fill", [](M& m) { m.fill = OutOfBoundsFill::nan; }, {{1, 0x000001000000e540}});
  add("address", [](M& m) { m.address += 16; }, {{0, 0x00007f0000000010}});
  const auto size = [](unsigned d) { return [=](M& m) { ++m.size[d]; }; };
  add("size 0", size(0), {{4, 0x0000007f00000040}});
  add("size 1", size(1), {{4, 0x000000800000003f}});
  add("size 2", size(2), {{5, 0x0000000400000003}});
  add("size 3", size(3), {{5, 0x0000000500000002}});
  add("size 4", size(4), {{6, 0x3f00000000000007}});
  const auto stride = [](unsigned d) { return [=](M& m) { m.stride[d] += 16; }; };
  add("stride 1", stride(1), {{1, 0x0000010100006540}});
  add("stride 2", stride(2), {{2, 0x0001000000001001}});
  add("stride 3", stride(3), {{2, 0x0001000100001000}});
  add("stride 4", stride(4), {{3, 0x0000000000100001}});
  add("stride 1 of 2^36", [](M& m) { m.stride[1] = 1ull << 36; },
      {{1, 0x6540}, {3, 0x0000000100100000}});
  add("box 0", [](M& m) { m.box[0] = 32; }, {{6, 0x1f00000000000006}, {8, 0x1800}});
  const auto box = [](unsigned d) { return [=](M& m) { ++m.box[d]; }; };
  add("box 1", box(1), {{7, 0x20110}, {8, 0x3300}});
  add("box 2", box(2), {{7, 0x2020f}, {8, 0x4800}});
  add("box 3", box(3), {{7, 0x3010f}, {8, 0x4000}});
  add("box 4", box(4), {{7, 0x102010f}, {8, 0x6000}});
  const auto element_stride = [](unsigned d) { return [=](M& m) { m.element_stride[d] = 2; }; };
  add("element stride 1", element_stride(1), {{6, 0x3f00000800000006}, {8, 0x1800}});
  add("element stride 2", element_stride(2), {{6, 0x3f00004000000006}, {8, 0x1800}});
  add("element stride 3", element_stride(3), {{6, 0x3f00020000000006}, {8, 0x1000}});
  add("element stride 4", element_stride(4), {{6, 0x3f00100000000006}, {8, 0}});
  for (const auto& [rows, word4] : {std::pair{128ull, 0x0000007f0000003full},
                                    {1023ull, 0x000003fe0000003full},
                                    {1024ull, 0x000003ff0000003full}}) {
    const std::uint64_t extent = rows;
    add("2d with " + std::to_string(rows) + " rows",
        [=](M& m) {
          m.rank = 2, m.size = {64, extent}, m.stride = {2, 128}, m.box = {64, 64};
        },
        {{1, 0x0000000800006510},
         {2, 0},
         {3, 0},
         {4, word4},
         {5, 0},
         {6, 0x3f00000000000000},
         {7, 0x3f},
         {8, 0x2000}});
  }
  return all;
}

TEST(TensorMapTest, EncodesTheDriversBits) {
  for (const Record& golden : records()) {
    TensorMapBits expected = kBaselineBits;
    for (const Word& word : golden.words) expected[word.index] = word.value;
    const TensorMapBits bits = encode(golden.map);
    for (unsigned word = 0; word < bits.size(); ++word) {
      EXPECT_EQ(bits[word], expected[word]) << golden.name << ", word " << word;
    }
  }
}

TEST(TensorMapTest, DecodingInvertsEncoding) {
  for (const Record& golden : records()) {
    TensorMap expected = golden.map;
    for (unsigned d = expected.rank; d < kMaxRank; ++d) {
      expected.size[d] = expected.stride[d] = expected.box[d] = expected.element_stride[d] = 0;
    }
    expected.stride[0] = element_bytes(expected.type);
    EXPECT_EQ(decode(encode(golden.map)), expected) << golden.name;
  }
}

TEST(TensorMapTest, IgnoresTheDriversNotesAndTheLargeTensorBit) {
  TensorMapBits bits = encode(baseline());
  bits[1] |= 1u << 21;
  bits[8] = bits[9] = bits[12] = ~0ull;
  TensorMap expected = baseline();
  EXPECT_EQ(decode(bits), expected);
}

TEST(TensorMapTest, RejectsWhatTheDriverRejects) {
  const auto rejected = [](auto change) {
    TensorMap map = baseline();
    change(map);
    EXPECT_THROW(encode(map), std::invalid_argument);
  };
  rejected([](TensorMap& m) { m.rank = 0; });
  rejected([](TensorMap& m) { m.rank = 6; });
  rejected([](TensorMap& m) { m.address += 8; });
  rejected([](TensorMap& m) { m.size[2] = 0; });
  rejected([](TensorMap& m) { m.size[2] = (1ull << 32) + 1; });
  rejected([](TensorMap& m) { m.stride[1] += 8; });
  rejected([](TensorMap& m) { m.stride[4] = 1ull << 40; });
  rejected([](TensorMap& m) { m.box[1] = 257; });
  rejected([](TensorMap& m) { m.box[1] = 0; });
  rejected([](TensorMap& m) { m.box[0] = 4; });                   // 8 bytes
  rejected([](TensorMap& m) { m.box[0] = 72; });                  // beyond the swizzle width
  rejected([](TensorMap& m) { m.type = DataType::u32; });         // 256 bytes in a 128-byte swizzle
  rejected([](TensorMap& m) { m.type = DataType::u4_align16; });  // sm_100
  rejected([](TensorMap& m) { m.swizzle = static_cast<Swizzle>(4); });
  rejected([](TensorMap& m) { m.element_stride[1] = 9; });
  rejected([](TensorMap& m) { m.interleave = Interleave::bytes16, m.rank = 2; });
  rejected([](TensorMap& m) { m.box[2] = 200; });  // more than a multiprocessor has
  rejected([](TensorMap& m) { m.address = 1ull << 57; });
  rejected([](TensorMap& m) { m.type = DataType::u16, m.fill = OutOfBoundsFill::nan; });
}

TEST(TensorMapTest, HostileBytesAreAnErrorOrAValidMap) {
  std::mt19937_64 random(2024);
  int accepted = 0;
  for (int round = 0; round < 200000; ++round) {
    TensorMapBits bits{};
    if (round % 2 == 0) {
      for (std::uint64_t& word : bits) word = random();
    } else {  // a real map with a few flipped bits
      bits = kBaselineBits;
      for (int flips = 0; flips < 3; ++flips) bits[random() % 10] ^= 1ull << (random() % 64);
    }
    try {
      const TensorMap map = decode(bits);
      const TensorMapBits again = encode(map);
      for (unsigned word = 0; word < 8; ++word) {
        const std::uint64_t large_tensor_bit = word == 1 ? 1u << 21 : 0;
        EXPECT_EQ(again[word], bits[word] & ~large_tensor_bit);
      }
      ++accepted;
    } catch (const std::invalid_argument&) {
    }
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace ptxemu::tma
