// Integer operations on single values, and the operand patterns of their instructions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ir/decode.hpp"

namespace ptxemu::exec {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Unsigned128;

template <typename T>
using Unsigned = std::make_unsigned_t<T>;
template <typename T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>,
    std::conditional_t<sizeof(T) == 4,
                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, Int128, Unsigned128>>>;

// All arithmetic wraps, so it is done on unsigned values. 16-bit values are promoted to int by C++.
template <typename T>
struct Add {
  T operator()(T a, T b) const { return static_cast<T>(Unsigned<T>(a) + Unsigned<T>(b)); }
};
template <typename T>
struct Sub {
  T operator()(T a, T b) const { return static_cast<T>(Unsigned<T>(a) - Unsigned<T>(b)); }
};
template <typename T>
struct MulLow {
  T operator()(T a, T b) const {
    return static_cast<T>(std::uint64_t(Unsigned<T>(a)) * std::uint64_t(Unsigned<T>(b)));
  }
};
template <typename T>
struct MulHigh {
  T operator()(T a, T b) const {
    return static_cast<T>((Wide<T>(a) * Wide<T>(b)) >> (8 * sizeof(T)));
  }
};
template <typename T>
struct MulWide {
  Wide<T> operator()(T a, T b) const { return Wide<T>(a) * Wide<T>(b); }
};
template <typename T>
struct MadLow {
  T operator()(T a, T b, T c) const { return Add<T>{}(MulLow<T>{}(a, b), c); }
};
template <typename T>
struct MadHigh {
  T operator()(T a, T b, T c) const { return Add<T>{}(MulHigh<T>{}(a, b), c); }
};
template <typename T>
struct MadWide {
  Wide<T> operator()(T a, T b, Wide<T> c) const {
    return Add<Wide<T>>{}(Wide<T>(a) * Wide<T>(b), c);
  }
};
template <typename T>
struct AddSat {
  T operator()(T a, T b) const {
    return static_cast<T>(std::clamp(std::int64_t{a} + std::int64_t{b},
                                     std::int64_t{std::numeric_limits<T>::min()},
                                     std::int64_t{std::numeric_limits<T>::max()}));
  }
};
template <typename T>
struct SubSat {
  T operator()(T a, T b) const {
    return static_cast<T>(std::clamp(std::int64_t{a} - std::int64_t{b},
                                     std::int64_t{std::numeric_limits<T>::min()},
                                     std::int64_t{std::numeric_limits<T>::max()}));
  }
};
template <typename T>
struct MadHighSat {
  T operator()(T a, T b, T c) const { return AddSat<T>{}(MulHigh<T>{}(a, b), c); }
};
// Division by zero has no defined result; hardware gives all ones, also as remainder.
template <typename T>
struct Div {
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return Sub<T>{}(0, a);
    }
    return static_cast<T>(a / b);
  }
};
template <typename T>
struct Rem {
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
template <typename T>
struct Abs {
  T operator()(T a) const { return a < 0 ? Sub<T>{}(0, a) : a; }
};
template <typename T>
struct Neg {
  T operator()(T a) const { return Sub<T>{}(0, a); }
};
template <typename T>
struct Min {
  T operator()(T a, T b) const { return std::min(a, b); }
};
template <typename T>
struct Max {
  T operator()(T a, T b) const { return std::max(a, b); }
};
template <typename T>
struct MinRelu {
  T operator()(T a, T b) const { return std::max<T>(std::min(a, b), 0); }
};
template <typename T>
struct MaxRelu {
  T operator()(T a, T b) const { return std::max<T>(std::max(a, b), 0); }
};
template <typename T>
struct Sad {
  T operator()(T a, T b, T c) const { return Add<T>{}(c, a < b ? Sub<T>{}(b, a) : Sub<T>{}(a, b)); }
};

}  // namespace ptxemu::exec
