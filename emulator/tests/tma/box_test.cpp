// The box walk against a per-element definition for random maps, and the properties that hardware
// has shown. Recorded copies are replayed in tests/golden.
#include "tma/box.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <random>
#include <stdexcept>
#include <vector>

namespace ptxemu::tma {
namespace {

TensorMap matrix(DataType type, std::uint64_t width, std::uint64_t height, std::uint64_t pitch) {
  TensorMap map;
  map.type = type;
  map.rank = 2;
  map.address = 0x10000;
  map.size = {width, height};
  map.stride = {element_bytes(type), pitch};
  map.box = {32, 8};
  map.element_stride = {1, 1};
  return map;
}

std::vector<BoxRun> runs_of(const TensorMap& map, const std::vector<std::int32_t>& at,
                            std::uint32_t shared = 0, Direction direction = Direction::load) {
  std::vector<BoxRun> runs;
  append_box_runs(map, at, shared, direction, runs);
  return runs;
}

/// Shared byte -> global address (0 when out of bounds), straight from the definition.
using Mapping = std::map<std::uint32_t, std::uint64_t>;

Mapping mapping_of(const std::vector<BoxRun>& runs) {
  Mapping bytes;
  for (const BoxRun& run : runs) {
    for (std::uint32_t i = 0; i < run.bytes; ++i) {
      const bool fresh =
          bytes.emplace(run.shared_offset + i, run.in_bounds ? run.global_address + i : 0).second;
      EXPECT_TRUE(fresh) << "shared byte written twice";
    }
  }
  return bytes;
}

Mapping definition(const TensorMap& map, const std::vector<std::int32_t>& at,
                   std::uint32_t shared) {
  Mapping bytes;
  const unsigned element = element_bytes(map.type);
  const unsigned width = 16u << static_cast<unsigned>(map.swizzle);
  const std::uint32_t pitch = map.swizzle == Swizzle::none ? map.box[0] * element : width;
  std::array<std::uint32_t, kMaxRank> count{1, 1, 1, 1, 1};
  for (unsigned d = 0; d < map.rank; ++d) {
    const std::uint32_t step = d == 0 ? 1 : map.element_stride[d];
    count[d] = (map.box[d] + step - 1) / step;
  }
  std::uint32_t row = 0;
  for (std::uint32_t i4 = 0; i4 < count[4]; ++i4)
    for (std::uint32_t i3 = 0; i3 < count[3]; ++i3)
      for (std::uint32_t i2 = 0; i2 < count[2]; ++i2)
        for (std::uint32_t i1 = 0; i1 < count[1]; ++i1, ++row)
          for (std::uint32_t i0 = 0; i0 < count[0]; ++i0) {
            const std::array<std::uint32_t, kMaxRank> index{i0, i1, i2, i3, i4};
            std::uint64_t address = map.address;
            bool inside = true;
            for (unsigned d = 0; d < map.rank; ++d) {
              const std::int64_t x =
                  at[d] + std::int64_t{index[d]} * (d == 0 ? 1 : map.element_stride[d]);
              inside = inside && x >= 0 && x < static_cast<std::int64_t>(map.size[d]);
              address += static_cast<std::uint64_t>(x) * map.stride[d];
            }
            for (unsigned byte = 0; byte < element; ++byte) {
              std::uint32_t to = shared + row * pitch + i0 * element + byte;
              to ^= (to >> 7 & (width / 16 - 1)) << 4;
              bytes[to] = inside ? address + byte : 0;
            }
          }
  return bytes;
}

TEST(BoxTest, RandomBoxesFollowTheDefinition) {
  std::mt19937 random(8);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  for (int round = 0; round < 2000; ++round) {
    TensorMap map;
    map.type = std::array{DataType::u8, DataType::f16, DataType::f32, DataType::f64}[below(4)];
    map.rank = 1 + below(5);
    map.swizzle = static_cast<Swizzle>(below(4));
    const unsigned element = element_bytes(map.type);
    const unsigned units = map.swizzle == Swizzle::none
                               ? 1 + below(6)
                               : 1 + below(1u << static_cast<unsigned>(map.swizzle));
    map.box[0] = units * 16 / element;
    map.address = 16 * random();
    map.stride[0] = element;
    std::vector<std::int32_t> at;
    for (unsigned d = 0; d < map.rank; ++d) {
      map.size[d] = 1 + below(40);
      map.element_stride[d] = 1 + (below(3) == 0 ? below(8) : 0);
      if (d > 0) map.box[d] = 1 + below(4);
      if (d > 0) map.stride[d] = 16ull * (1 + random() % 0xffffffffu);
      const int unit = d == 0 ? static_cast<int>(16 / element) : 1;
      at.push_back((static_cast<int>(below(12)) - 4) * unit);
    }
    const std::uint32_t shared = 128 * below(9);
    ASSERT_EQ(mapping_of(runs_of(map, at, shared)), definition(map, at, shared))
        << "round " << round;
  }
}

TEST(BoxTest, BytesIncludeWhatIsOutOfBounds) {
  TensorMap map = matrix(DataType::f16, 60, 70, 128);
  for (const std::vector<std::int32_t>& at :
       {std::vector<std::int32_t>{0, 0}, {56, 66}, {64, 0}, {-64, -9}}) {
    std::uint32_t total = 0;
    for (const BoxRun& run : runs_of(map, at)) total += run.bytes;
    EXPECT_EQ(total, box_bytes(map));
  }
  map.element_stride[1] = 3;
  EXPECT_EQ(box_bytes(map), 3 * 64u);
}

TEST(BoxTest, StoresExceedARowThatEndsWithinA16ByteUnit) {
  const TensorMap map = matrix(DataType::f16, 60, 70, 128);
  std::uint64_t inside = 0;
  for (const BoxRun& run : runs_of(map, {48, 0}, 0, Direction::store))
    inside += run.in_bounds ? run.bytes : 0;
  EXPECT_EQ(inside, 8 * 32u);  // elements 48 .. 63 of eight rows
  inside = 0;
  for (const BoxRun& run : runs_of(map, {48, 0})) inside += run.in_bounds ? run.bytes : 0;
  EXPECT_EQ(inside, 8 * 24u);
}

TEST(BoxTest, RaggedMapsClipByWrappingAddresses) {
  constexpr std::int32_t kBig = 1 << 30;
  constexpr std::uint64_t kPitch = 128;
  TensorMap map;
  map.type = DataType::bf16;
  map.rank = 4;
  map.address = 0x7f0000000000;
  map.size = {64, kBig, 0x7fffffff, 0x7fffffff};
  map.stride = {2, kPitch, (1ull << 35) - kPitch, kPitch};
  map.box = {64, 8, 1, 1};
  map.element_stride = {1, 1, 1, 1};
  const int length = 5, offset = 100;
  const std::vector<BoxRun> runs = runs_of(map, {0, kBig - length, kBig, offset + length});
  ASSERT_EQ(runs.size(), 8u);
  for (unsigned row = 0; row < 8; ++row) {
    EXPECT_EQ(runs[row].in_bounds, row < 5);
    EXPECT_EQ(runs[row].global_address, row < 5 ? map.address + (offset + row) * kPitch : 0);
  }
}

TEST(BoxTest, RefusesWhatHardwareRefuses) {
  const TensorMap map = matrix(DataType::f16, 60, 70, 128);
  EXPECT_THROW(runs_of(map, {4, 0}), std::invalid_argument);
  EXPECT_THROW(runs_of(map, {0, 0}, 64), std::invalid_argument);
  EXPECT_THROW(runs_of(map, {0, 0, 0}), std::invalid_argument);
  EXPECT_THROW(runs_of(map, {-8, 0}, 0, Direction::store), std::invalid_argument);
  EXPECT_THROW(runs_of(map, {0, -1}, 0, Direction::store), std::invalid_argument);
  EXPECT_NO_THROW(runs_of(map, {-8, -1}));
  TensorMap huge = map;  // an element stride hides the size from the driver's own check
  huge.rank = 5;
  huge.element_stride = {1, 8, 1, 1, 1};
  for (unsigned d = 0; d < 5; ++d)
    huge.size[d] = 1000, huge.box[d] = d == 1 ? 7 : 256, huge.stride[d] = 2048;
  EXPECT_THROW(runs_of(huge, {0, 0, 0, 0, 0}), std::invalid_argument);
}

TEST(BoxTest, HostileMapsAreWalkedOrRefused) {
  std::mt19937_64 random(10);
  TensorMap map = matrix(DataType::f16, 60, 70, 128);
  const TensorMapBits valid = encode(map);
  int walked = 0;
  for (int round = 0; round < 20000; ++round) {
    TensorMapBits bits = valid;
    for (int flips = 0; flips < 4; ++flips) bits[1 + random() % 7] ^= 1ull << (random() % 64);
    try {
      const TensorMap hostile = decode(bits);
      std::vector<std::int32_t> at(hostile.rank);
      for (std::int32_t& coordinate : at) coordinate = static_cast<std::int32_t>(random());
      at[0] &= ~15;
      const auto direction = random() % 2 == 0 ? Direction::load : Direction::store;
      std::uint64_t total = 0;
      for (const BoxRun& run :
           runs_of(hostile, at, 128 * static_cast<std::uint32_t>(random() % 64), direction))
        total += run.bytes;
      EXPECT_EQ(total, box_bytes(hostile));
      ++walked;
    } catch (const std::invalid_argument&) {
    }
  }
  EXPECT_GT(walked, 100);
}

TEST(BoxTest, FillsAndConversions) {
  TensorMap map = matrix(DataType::f32, 60, 70, 256);
  std::array<std::byte, 8> bytes;
  bytes.fill(std::byte{0x55});
  fill_out_of_bounds(map, bytes);
  EXPECT_EQ(bytes, (std::array<std::byte, 8>{}));
  map.fill = OutOfBoundsFill::nan;
  fill_out_of_bounds(map, bytes);
  std::uint32_t word;
  std::memcpy(&word, bytes.data(), sizeof word);
  EXPECT_EQ(word, 0x7ff77ff7u);

  const auto converted = [](DataType type, std::uint32_t value) {
    std::array<std::byte, 4> element;
    std::memcpy(element.data(), &value, sizeof value);
    convert_loaded(type, element);
    std::memcpy(&value, element.data(), sizeof value);
    return value;
  };
  EXPECT_EQ(converted(DataType::f32, 0x80000001), 0x80000001u);
  EXPECT_EQ(converted(DataType::f32_ftz, 0x80000001), 0x80000000u);
  EXPECT_EQ(converted(DataType::tf32, 0x3f801001), 0x3f802000u);
  EXPECT_EQ(converted(DataType::tf32_ftz, 0x00000001), 0u);
}

}  // namespace
}  // namespace ptxemu::tma
