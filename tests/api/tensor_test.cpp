// contiguous, offsets_from_lengths, names.
#include "jfa/tensor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "jfa/error.hpp"

namespace jfa {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Tensor, ContiguousIsRowMajor) {
  const Tensor tensor = contiguous(nullptr, DType::float16, {2, 3, 4, 5});
  EXPECT_THAT(tensor.strides, ElementsAre(60, 20, 5, 1));
  EXPECT_EQ(tensor.elements(), 120);
  EXPECT_FALSE(Tensor{}.present());
  EXPECT_EQ(Tensor{}.elements(), 0);
  EXPECT_EQ(contiguous(nullptr, DType::int32, {4, 0, 3}).elements(), 0);
}

TEST(Tensor, ContiguousRefuses) {
  EXPECT_THAT(refusal([] { contiguous(nullptr, DType::int32, {}); }), HasSubstr("rank 0"));
  EXPECT_THAT(refusal([] {
                contiguous(nullptr, DType::int32, {1, 1, 1, 1, 1});
              }),
              HasSubstr("rank 5"));
  EXPECT_THAT(refusal([] {
                contiguous(nullptr, DType::int32, {3, -1});
              }),
              HasSubstr("extent -1 of axis 1"));
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  EXPECT_THAT(refusal([] {
                contiguous(nullptr, DType::int32, {kHuge, kHuge});
              }),
              HasSubstr("2^63"));
}

TEST(Tensor, NamesAreThoseOfNumPy) {
  EXPECT_EQ(name_of(DType::bfloat16), "bfloat16");
  EXPECT_EQ(name_of(DType::int64), "int64");
}

TEST(OffsetsFromLengths, AddsUpInBothIntegerTypes) {
  std::vector<std::int32_t> lengths = {3, 0, 5};
  std::vector<std::int64_t> offsets(4, -1);
  offsets_from_lengths(contiguous(lengths.data(), DType::int32, {3}),
                       contiguous(offsets.data(), DType::int64, {4}));
  EXPECT_THAT(offsets, ElementsAre(0, 3, 3, 8));
  std::vector<std::int32_t> none(1, -1);
  offsets_from_lengths(contiguous(nullptr, DType::int64, {0}),
                       contiguous(none.data(), DType::int32, {1}));
  EXPECT_THAT(none, ElementsAre(0));
}

TEST(OffsetsFromLengths, RefusesBeforeItWrites) {
  std::vector<std::int64_t> lengths = {3, -1};
  std::vector<std::int32_t> offsets(3, 77);
  const Tensor l = contiguous(lengths.data(), DType::int64, {2});
  const Tensor o = contiguous(offsets.data(), DType::int32, {3});
  EXPECT_THAT(refusal([&] { offsets_from_lengths(l, o); }), HasSubstr("lengths[1] = -1"));
  lengths[1] = std::numeric_limits<std::int32_t>::max();
  EXPECT_THAT(refusal([&] { offsets_from_lengths(l, o); }), HasSubstr("use int64 offsets"));
  EXPECT_THAT(offsets, ElementsAre(77, 77, 77));
  EXPECT_THAT(
      refusal([&] { offsets_from_lengths(l, contiguous(offsets.data(), DType::int32, {2})); }),
      HasSubstr("batch + 1 = 3"));
  EXPECT_THAT(
      refusal([&] { offsets_from_lengths(contiguous(lengths.data(), DType::float64, {2}), o); }),
      HasSubstr("lengths: type float64"));
}

}  // namespace
}  // namespace jfa
