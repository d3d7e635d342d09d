// Small pieces of floating-point semantics shared by the handlers.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace ptxemu::exec {

/// The NaN that PTX arithmetic returns.
inline constexpr std::uint32_t kNan32 = 0x7fffffffu;

inline float canonical(float x) {
  return x == x ? x : std::bit_cast<float>(kNan32);
}
inline double canonical(double x) {
  return x == x ? x : std::bit_cast<double>(std::uint64_t{0x7fffffffffffffff});
}

template <bool kFlush>
inline float flush(float x) {
  if constexpr (kFlush) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return std::bit_cast<float>((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
  } else {
    return x;
  }
}

inline float saturate(float x) {
  return x > 0.0F ? (x < 1.0F ? x : 1.0F) : 0.0F;
}  // NaN -> +0
inline double saturate(double x) {
  return x > 0.0 ? (x < 1.0 ? x : 1.0) : 0.0;
}

/// min/max of PTX: a NaN loses against a number (or wins, with `kNan`); -0 < +0.
template <bool kMaximum, bool kNan, typename T>
inline T min_max(T a, T b) {
  if (a != a || b != b) {
    if (kNan || (a != a && b != b)) return canonical(a + b);
    return a != a ? b : a;
  }
  if (a == b) return (std::signbit(a) != 0) == kMaximum ? b : a;
  return (a > b) == kMaximum ? a : b;
}

}  // namespace ptxemu::exec
