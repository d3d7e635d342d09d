// Element-wise reductions of bulk copies.
#include "tma/reduce.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace ptxemu::tma {
namespace {

template <class Element>
Element reduced(ReduceOp op, DataType type, Element destination, Element source,
                bool flush = true) {
  std::vector<Element> a(3, destination), b(3, source);
  reduce(op, type, std::as_writable_bytes(std::span(a)), std::as_bytes(std::span(b)), flush);
  EXPECT_EQ(std::memcmp(&a[0], &a[2], sizeof(Element)), 0);
  return a[1];
}

TEST(ReduceTest, Integers) {
  EXPECT_EQ(reduced<std::uint32_t>(ReduceOp::add, DataType::u32, 0xffffffff, 2), 1u);
  EXPECT_EQ(reduced<std::int32_t>(ReduceOp::add, DataType::s32, 0x7fffffff, 1),
            std::int32_t{-0x7fffffff - 1});
  EXPECT_EQ(reduced<std::int32_t>(ReduceOp::min, DataType::s32, -1, 1), -1);
  EXPECT_EQ(reduced<std::uint32_t>(ReduceOp::min, DataType::u32, 0xffffffff, 1), 1u);
  EXPECT_EQ(reduced<std::int64_t>(ReduceOp::max, DataType::s64, -5, 3), 3);
  EXPECT_EQ(reduced<std::uint32_t>(ReduceOp::inc, DataType::u32, 6, 7), 7u);
  EXPECT_EQ(reduced<std::uint32_t>(ReduceOp::inc, DataType::u32, 7, 7), 0u);
  EXPECT_EQ(reduced<std::uint32_t>(ReduceOp::dec, DataType::u32, 0, 7), 7u);
  EXPECT_EQ(reduced<std::uint32_t>(ReduceOp::dec, DataType::u32, 9, 7), 7u);
  EXPECT_EQ(reduced<std::uint32_t>(ReduceOp::dec, DataType::u32, 5, 7), 4u);
  EXPECT_EQ(reduced<std::uint64_t>(ReduceOp::bit_xor, DataType::u64, 0xf0, 0xff), 0x0fu);
}

TEST(ReduceTest, Floats) {
  EXPECT_EQ(reduced<float>(ReduceOp::add, DataType::f32, 1.5f, 2.0f), 3.5f);
  EXPECT_EQ(reduced<float>(ReduceOp::add, DataType::f32, 0x1p-130f, 0x1p-130f), 0.0f);
  EXPECT_EQ(reduced<float>(ReduceOp::add, DataType::f32, 0x1p-130f, 0x1p-130f, false), 0x1p-129f);
  EXPECT_EQ(reduced<std::uint16_t>(ReduceOp::add, DataType::f16, 0x3c00, 0x0001), 0x3c00);
  EXPECT_EQ(reduced<std::uint16_t>(ReduceOp::add, DataType::f16, 0x0001, 0x0001), 0x0002);
  EXPECT_EQ(reduced<std::uint16_t>(ReduceOp::max, DataType::bf16, 0x7fc0, 0x3f80), 0x3f80);
  EXPECT_EQ(reduced<std::uint16_t>(ReduceOp::min, DataType::f16, 0x0000, 0x8000), 0x8000);
  EXPECT_EQ(reduced<double>(ReduceOp::add, DataType::f64, 1, 0x1p-53), 1.0);
}

TEST(ReduceTest, UndefinedCombinationsAreRefused) {
  EXPECT_FALSE(reduction_exists(ReduceOp::inc, DataType::s32));
  EXPECT_FALSE(reduction_exists(ReduceOp::max, DataType::f32));
  EXPECT_FALSE(reduction_exists(ReduceOp::add, DataType::s64));  // add.u64 does it
  EXPECT_FALSE(reduction_exists(ReduceOp::bit_and, DataType::f16));
  EXPECT_FALSE(reduction_exists(ReduceOp::add, DataType::u8));
  EXPECT_THROW(reduced<float>(ReduceOp::min, DataType::f32, 1, 2), std::invalid_argument);
  std::vector<std::byte> a(8), b(4), odd(6);
  EXPECT_THROW(reduce(ReduceOp::add, DataType::f32, a, b), std::invalid_argument);
  EXPECT_THROW(reduce(ReduceOp::add, DataType::f32, odd, odd), std::invalid_argument);
}

}  // namespace
}  // namespace ptxemu::tma
