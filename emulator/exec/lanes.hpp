// Lane-wise evaluation: the loops that the compiler turns into vector code.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "exec/context.hpp"

namespace ptxemu::exec {

struct Bits128 {
  std::uint64_t low = 0, high = 0;
};

/// Values of up to 32 bits live in 32-bit slots; the upper bits of a short value are not defined.
template <typename T>
using SlotOf = std::conditional_t<sizeof(T) == 16, Bits128,
                                  std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>>;

template <typename T>
inline T from_slot(SlotOf<T> slot) {
  if constexpr (sizeof(T) == 1) {
    return std::bit_cast<T>(static_cast<std::uint8_t>(slot));
  } else if constexpr (sizeof(T) == 2) {
    return std::bit_cast<T>(static_cast<std::uint16_t>(slot));
  } else {
    return std::bit_cast<T>(slot);
  }
}

template <typename T>
inline SlotOf<T> to_slot(T value) {
  if constexpr (sizeof(T) == 1) {
    return std::bit_cast<std::uint8_t>(value);
  } else if constexpr (sizeof(T) == 2) {
    return std::bit_cast<std::uint16_t>(value);
  } else {
    return std::bit_cast<SlotOf<T>>(value);
  }
}

/// Cheap functions are evaluated for all lanes and blended; costly ones only for active lanes.
enum class Cost { cheap, costly };

template <Cost kCost, typename D, typename F, typename... S>
inline void map_rows(LaneMask lanes, SlotOf<D>* d, F f, const SlotOf<S>*... s) {
  if (lanes == kFullMask) {
#pragma GCC ivdep
    for (int l = 0; l < kWarpSize; ++l) d[l] = to_slot<D>(f(from_slot<S>(s[l])...));
  } else if constexpr (kCost == Cost::cheap && sizeof(D) <= 8) {
#pragma GCC ivdep
    for (int l = 0; l < kWarpSize; ++l) {
      const SlotOf<D> value = to_slot<D>(f(from_slot<S>(s[l])...));
      d[l] = (lanes >> l & 1) != 0 ? value : d[l];
    }
  } else {
    for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
      const int l = std::countr_zero(rest);
      d[l] = to_slot<D>(f(from_slot<S>(s[l])...));
    }
  }
}

template <Cost kCost, typename D, typename A, typename F>
inline void map1(Context& c, const Instruction& in, LaneMask lanes, F f) {
  map_rows<kCost, D, F, A>(lanes, c.row<SlotOf<D>>(in.d), f, c.row<const SlotOf<A>>(in.a));
}
template <Cost kCost, typename D, typename A, typename B, typename F>
inline void map2(Context& c, const Instruction& in, LaneMask lanes, F f) {
  map_rows<kCost, D, F, A, B>(lanes, c.row<SlotOf<D>>(in.d), f, c.row<const SlotOf<A>>(in.a),
                              c.row<const SlotOf<B>>(in.b));
}
template <Cost kCost, typename D, typename A, typename B, typename C, typename F>
inline void map3(Context& c, const Instruction& in, LaneMask lanes, F f) {
  map_rows<kCost, D, F, A, B, C>(lanes, c.row<SlotOf<D>>(in.d), f, c.row<const SlotOf<A>>(in.a),
                                 c.row<const SlotOf<B>>(in.b), c.row<const SlotOf<C>>(in.c));
}

/// Evaluates a condition per lane and stores it as a mask.
template <typename A, typename B, typename F>
inline LaneMask compare_rows(const SlotOf<A>* a, const SlotOf<B>* b, F f) {
  LaneMask result = 0;
  for (int l = 0; l < kWarpSize; ++l)
    result |= static_cast<LaneMask>(f(from_slot<A>(a[l]), from_slot<B>(b[l]))) << l;
  return result;
}

/// Handlers made from a stateless function object. F is a lambda type without captures.
template <Cost kCost, typename D, typename A, typename F>
Action unary(Context& c, const Instruction& in, LaneMask lanes) {
  map1<kCost, D, A>(c, in, lanes, F{});
  return Action::next;
}
template <Cost kCost, typename D, typename A, typename B, typename F>
Action binary(Context& c, const Instruction& in, LaneMask lanes) {
  map2<kCost, D, A, B>(c, in, lanes, F{});
  return Action::next;
}
template <Cost kCost, typename D, typename A, typename B, typename C, typename F>
Action ternary(Context& c, const Instruction& in, LaneMask lanes) {
  map3<kCost, D, A, B, C>(c, in, lanes, F{});
  return Action::next;
}

}  // namespace ptxemu::exec
