// Element-wise reductions, one typed loop for all of them.
#include "tma/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "numeric/arithmetic.hpp"

namespace ptxemu::tma {
namespace {

template <class Element, class Combine>
void combine_each(std::span<std::byte> destination, std::span<const std::byte> source,
                  Combine combine) {
  for (std::size_t i = 0; i + sizeof(Element) <= destination.size(); i += sizeof(Element)) {
    Element a, b;
    std::memcpy(&a, destination.data() + i, sizeof a);
    std::memcpy(&b, source.data() + i, sizeof b);
    a = static_cast<Element>(combine(a, b));
    std::memcpy(destination.data() + i, &a, sizeof a);
  }
}

template <class Element>
void reduce_integers(ReduceOp op, std::span<std::byte> destination,
                     std::span<const std::byte> source) {
  const auto run = [&](auto combine) { combine_each<Element>(destination, source, combine); };
  switch (op) {
    case ReduceOp::add:
      return run([](Element a, Element b) {
        return static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b);
      });
    case ReduceOp::min:
      return run([](Element a, Element b) { return std::min(a, b); });
    case ReduceOp::max:
      return run([](Element a, Element b) { return std::max(a, b); });
    case ReduceOp::inc:
      return run([](Element a, Element b) { return a >= b ? Element{0} : a + 1; });
    case ReduceOp::dec:
      return run([](Element a, Element b) { return a == 0 || a > b ? b : a - 1; });
    case ReduceOp::bit_and:
      return run([](Element a, Element b) { return a & b; });
    case ReduceOp::bit_or:
      return run([](Element a, Element b) { return a | b; });
    case ReduceOp::bit_xor:
      return run([](Element a, Element b) { return a ^ b; });
  }
}

/// Minimum or maximum of two 16-bit floats; NaN yields the other operand, -0 is below +0.
std::uint16_t half_extreme(numeric::Format format, bool maximum, std::uint16_t a, std::uint16_t b) {
  const double x = numeric::decode(format, a);
  const double y = numeric::decode(format, b);
  if (std::isnan(x)) return std::isnan(y) ? std::uint16_t{0x7fff} : b;
  if (std::isnan(y)) return a;
  if (x == y) return std::signbit(x) == maximum ? b : a;
  return (x < y) == maximum ? b : a;
}

void reduce_halves(ReduceOp op, numeric::Format format, std::span<std::byte> destination,
                   std::span<const std::byte> source) {
  combine_each<std::uint16_t>(destination, source, [&](std::uint16_t a, std::uint16_t b) {
    return op == ReduceOp::add ? numeric::half_add(format, a, b)
                               : half_extreme(format, op == ReduceOp::max, a, b);
  });
}

}  // namespace

bool reduction_exists(ReduceOp op, DataType type) {
  const bool extreme = op == ReduceOp::min || op == ReduceOp::max;
  const bool bitwise = op == ReduceOp::bit_and || op == ReduceOp::bit_or || op == ReduceOp::bit_xor;
  switch (type) {
    case DataType::u32:
      return true;
    case DataType::s32:
    case DataType::u64:
      return op == ReduceOp::add || extreme || bitwise;
    case DataType::s64:
      return extreme || bitwise;
    case DataType::f16:
    case DataType::bf16:
      return op == ReduceOp::add || extreme;
    case DataType::f32:
    case DataType::f32_ftz:
    case DataType::tf32:
    case DataType::tf32_ftz:
    case DataType::f64:
      return op == ReduceOp::add;
    default:
      return false;
  }
}

void reduce(ReduceOp op, DataType type, std::span<std::byte> destination,
            std::span<const std::byte> source, bool flush_f32) {
  if (!reduction_exists(op, type))
    throw std::invalid_argument("this reduction does not exist for this element type");
  if (destination.size() != source.size() || destination.size() % element_bytes(type) != 0) {
    throw std::invalid_argument("reduction of spans of unequal or fractional length");
  }
  switch (type) {
    case DataType::u32:
      return reduce_integers<std::uint32_t>(op, destination, source);
    case DataType::s32:
      return reduce_integers<std::int32_t>(op, destination, source);
    case DataType::u64:
      return reduce_integers<std::uint64_t>(op, destination, source);
    case DataType::s64:
      return reduce_integers<std::int64_t>(op, destination, source);
    case DataType::f16:
      return reduce_halves(op, numeric::Format::f16, destination, source);
    case DataType::bf16:
      return reduce_halves(op, numeric::Format::bf16, destination, source);
    case DataType::f64:
      return combine_each<double>(destination, source, [](double a, double b) { return a + b; });
    default:
      return combine_each<float>(destination, source, [&](float a, float b) {
        if (!flush_f32) return a + b;
        return numeric::flush_subnormal(numeric::flush_subnormal(a) + numeric::flush_subnormal(b));
      });
  }
}

}  // namespace ptxemu::tma
