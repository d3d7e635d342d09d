// Integer arithmetic.
#include <algorithm>
#include <cstdlib>
#include <limits>

#include "exec/integer.hpp"
#include "exec/lanes.hpp"
#include "exec/opcodes.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Type;

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Unsigned128;

template <typename T>
using Unsigned = std::make_unsigned_t<T>;
template <typename T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>,
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
  T operator()(T a, T b) const { return static_cast<T>((Wide<T>(a) * Wide<T>(b)) >> (8 * sizeof(T))); }
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
  Wide<T> operator()(T a, T b, Wide<T> c) const { return Add<Wide<T>>{}(Wide<T>(a) * Wide<T>(b), c); }
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
  T operator()(T a, T b, T c) const {
    return Add<T>{}(c, a < b ? Sub<T>{}(b, a) : Sub<T>{}(a, b));
  }
};
/// Two 16-bit halves, each by F.
template <template <typename> class F, typename T>
struct Pair {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const {
    const auto low = static_cast<std::uint16_t>(F<T>{}(static_cast<T>(a), static_cast<T>(b)));
    const auto high = static_cast<std::uint16_t>(F<T>{}(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
    return low | std::uint32_t{high} << 16;
  }
};

template <typename T, template <typename> class F>
constexpr ir::Handler kBinary = binary<Cost::cheap, T, T, T, F<T>>;
template <typename T, template <typename> class F>
constexpr ir::Handler kBinaryCostly = binary<Cost::costly, T, T, T, F<T>>;

/// The handler of F for an integer type.
template <template <typename> class F>
ir::Handler binary_for(Type type) {
  switch (type) {
    case Type::u16: return kBinary<std::uint16_t, F>;
    case Type::s16: return kBinary<std::int16_t, F>;
    case Type::u32: return kBinary<std::uint32_t, F>;
    case Type::s32: return kBinary<std::int32_t, F>;
    case Type::u64: return kBinary<std::uint64_t, F>;
    case Type::s64: return kBinary<std::int64_t, F>;
    default: return nullptr;
  }
}
template <template <typename> class F>
ir::Handler ternary_for(Type type) {
  switch (type) {
    case Type::u16: return ternary<Cost::cheap, std::uint16_t, std::uint16_t, std::uint16_t, std::uint16_t, F<std::uint16_t>>;
    case Type::s16: return ternary<Cost::cheap, std::int16_t, std::int16_t, std::int16_t, std::int16_t, F<std::int16_t>>;
    case Type::u32: return ternary<Cost::cheap, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, F<std::uint32_t>>;
    case Type::s32: return ternary<Cost::cheap, std::int32_t, std::int32_t, std::int32_t, std::int32_t, F<std::int32_t>>;
    case Type::u64: return ternary<Cost::cheap, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, F<std::uint64_t>>;
    case Type::s64: return ternary<Cost::cheap, std::int64_t, std::int64_t, std::int64_t, std::int64_t, F<std::int64_t>>;
    default: return nullptr;
  }
}

void operands2(Decode& d, Type type) {
  d.require_operands(3, 3);
  d.out.type = type;
  d.out.d = d.destination(0, type);
  d.out.a = d.source(1, type);
  d.out.b = d.source(2, type);
}
void operands3(Decode& d, Type type, Type result) {
  d.require_operands(4, 4);
  d.out.type = type;
  d.out.d = d.destination(0, result);
  d.out.a = d.source(1, type);
  d.out.b = d.source(2, type);
  d.out.c = d.source(3, result);
}

Type widened(Decode& d, Type type) {
  switch (type) {
    case Type::u16: return Type::u32;
    case Type::s16: return Type::s32;
    case Type::u32: return Type::u64;
    case Type::s32: return Type::s64;
    default: d.unsupported(".wide needs a 16- or 32-bit type");
  }
}

template <template <typename> class F, template <typename> class Saturating>
void bind_add_sub(Decode& d) {
  const Type type = d.type();
  operands2(d, type);
  if (d.has("sat")) {
    if (type == Type::s32) d.out.handler = kBinary<std::int32_t, Saturating>;
    return;
  }
  if (type == Type::u16x2 || type == Type::s16x2) {
    d.out.handler = binary<Cost::cheap, std::uint32_t, std::uint32_t, std::uint32_t, Pair<F, std::uint16_t>>;
    return;
  }
  d.out.handler = binary_for<F>(type);
}

void bind_mul(Decode& d) {
  const Type type = d.type();
  if (d.has("wide")) {
    const Type result = widened(d, type);
    d.require_operands(3, 3);
    d.out.type = result;
    d.out.source_type = type;
    d.out.d = d.destination(0, result);
    d.out.a = d.source(1, type);
    d.out.b = d.source(2, type);
    switch (type) {
      case Type::u16: d.out.handler = binary<Cost::cheap, std::uint32_t, std::uint16_t, std::uint16_t, MulWide<std::uint16_t>>; break;
      case Type::s16: d.out.handler = binary<Cost::cheap, std::int32_t, std::int16_t, std::int16_t, MulWide<std::int16_t>>; break;
      case Type::u32: d.out.handler = binary<Cost::cheap, std::uint64_t, std::uint32_t, std::uint32_t, MulWide<std::uint32_t>>; break;
      default: d.out.handler = binary<Cost::cheap, std::int64_t, std::int32_t, std::int32_t, MulWide<std::int32_t>>; break;
    }
    return;
  }
  operands2(d, type);
  d.out.handler = d.has("hi") ? binary_for<MulHigh>(type) : binary_for<MulLow>(type);
}

void bind_mad(Decode& d) {
  const Type type = d.type();
  if (d.has("wide")) {
    const Type result = widened(d, type);
    operands3(d, type, result);
    switch (type) {
      case Type::u16: d.out.handler = ternary<Cost::cheap, std::uint32_t, std::uint16_t, std::uint16_t, std::uint32_t, MadWide<std::uint16_t>>; break;
      case Type::s16: d.out.handler = ternary<Cost::cheap, std::int32_t, std::int16_t, std::int16_t, std::int32_t, MadWide<std::int16_t>>; break;
      case Type::u32: d.out.handler = ternary<Cost::cheap, std::uint64_t, std::uint32_t, std::uint32_t, std::uint64_t, MadWide<std::uint32_t>>; break;
      default: d.out.handler = ternary<Cost::cheap, std::int64_t, std::int32_t, std::int32_t, std::int64_t, MadWide<std::int32_t>>; break;
    }
    return;
  }
  operands3(d, type, type);
  if (d.has("sat")) {
    if (d.has("hi") && type == Type::s32)
      d.out.handler = ternary<Cost::cheap, std::int32_t, std::int32_t, std::int32_t, std::int32_t, MadHighSat<std::int32_t>>;
    return;
  }
  d.out.handler = d.has("hi") ? ternary_for<MadHigh>(type) : ternary_for<MadLow>(type);
}

template <bool kAdd>
struct Mul24 {
  // 24-bit operands in 32-bit registers: low or high 32 bits of the 48-bit product.
  template <typename T, bool kHigh, bool kSaturate = false>
  struct Op {
    T operator()(T a, T b, T c) const {
      const auto cut = [](T v) { return static_cast<std::int64_t>(std::is_signed_v<T> ? static_cast<std::int32_t>(static_cast<std::uint32_t>(v) << 8) >> 8 : static_cast<std::int64_t>(static_cast<std::uint32_t>(v) & 0xffffff)); };
      const std::int64_t product = cut(a) * cut(b);
      const T part = static_cast<T>(kHigh ? product >> 16 : product);
      if (!kAdd) return part;
      return kSaturate ? AddSat<T>{}(part, c) : Add<T>{}(part, c);
    }
  };
};
template <bool kAdd>
void bind_24(Decode& d) {
  const Type type = d.type();
  if (kAdd) {
    operands3(d, type, type);
  } else {
    operands2(d, type);
    d.out.c = d.out.b;
  }
  const bool high = d.has("hi");
  using U = std::uint32_t;
  using S = std::int32_t;
  if (d.has("sat")) {
    if (kAdd && high && type == Type::s32)
      d.out.handler = ternary<Cost::cheap, S, S, S, S, typename Mul24<kAdd>::template Op<S, true, true>>;
  } else if (type == Type::u32) {
    d.out.handler = high ? ternary<Cost::cheap, U, U, U, U, typename Mul24<kAdd>::template Op<U, true>>
                         : ternary<Cost::cheap, U, U, U, U, typename Mul24<kAdd>::template Op<U, false>>;
  } else {
    d.out.handler = high ? ternary<Cost::cheap, S, S, S, S, typename Mul24<kAdd>::template Op<S, true>>
                         : ternary<Cost::cheap, S, S, S, S, typename Mul24<kAdd>::template Op<S, false>>;
  }
}

template <template <typename> class F>
ir::Handler costly_for(Type type) {
  switch (type) {
    case Type::u16: return kBinaryCostly<std::uint16_t, F>;
    case Type::s16: return kBinaryCostly<std::int16_t, F>;
    case Type::u32: return kBinaryCostly<std::uint32_t, F>;
    case Type::s32: return kBinaryCostly<std::int32_t, F>;
    case Type::u64: return kBinaryCostly<std::uint64_t, F>;
    case Type::s64: return kBinaryCostly<std::int64_t, F>;
    default: return nullptr;
  }
}
template <template <typename> class F>
void bind_costly(Decode& d) {
  operands2(d, d.type());
  d.out.handler = costly_for<F>(d.type());
}

template <template <typename> class F>
void bind_unary(Decode& d) {
  const Type type = d.type();
  d.require_operands(2, 2);
  d.out.type = type;
  d.out.d = d.destination(0, type);
  d.out.a = d.source(1, type);
  switch (type) {
    case Type::s16: d.out.handler = unary<Cost::cheap, std::int16_t, std::int16_t, F<std::int16_t>>; break;
    case Type::s32: d.out.handler = unary<Cost::cheap, std::int32_t, std::int32_t, F<std::int32_t>>; break;
    case Type::s64: d.out.handler = unary<Cost::cheap, std::int64_t, std::int64_t, F<std::int64_t>>; break;
    default: break;
  }
}

void bind_sad(Decode& d) {
  operands3(d, d.type(), d.type());
  d.out.handler = ternary_for<Sad>(d.type());
}

/// Extended precision with the warp's carry mask. `flags` bit 0: read the carry, bit 1: write it.
template <typename T, bool kSubtract>
Action carry(Context& c, const Instruction& in, LaneMask lanes) {
  const auto* a = c.row<const SlotOf<T>>(in.a);
  const auto* b = c.row<const SlotOf<T>>(in.b);
  auto* out = c.row<SlotOf<T>>(in.d);
  LaneMask next = 0;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const unsigned in_bit = (in.flags & 1) != 0 ? (c.warp->carry >> l & 1) : 0;
    const T x = from_slot<T>(a[l]);
    const T y = from_slot<T>(b[l]);
    T sum = 0, total = 0;
    bool overflow = false;
    if (kSubtract) {
      overflow = __builtin_sub_overflow(x, y, &sum);
      overflow |= __builtin_sub_overflow(sum, static_cast<T>(in_bit), &total);
    } else {
      overflow = __builtin_add_overflow(x, y, &sum);
      overflow |= __builtin_add_overflow(sum, static_cast<T>(in_bit), &total);
    }
    out[l] = to_slot<T>(total);
    next |= static_cast<LaneMask>(overflow) << l;
  }
  if ((in.flags & 2) != 0) c.warp->carry = (c.warp->carry & ~lanes) | next;
  return Action::next;
}
template <bool kSubtract, bool kRead>
void bind_carry(Decode& d) {
  const Type type = d.type();
  operands2(d, type);
  d.out.flags = (kRead ? 1u : 0u) | (!kRead || d.has("cc") ? 2u : 0u);
  d.out.handler = ir::bit_size(type) == 64 ? carry<std::uint64_t, kSubtract> : carry<std::uint32_t, kSubtract>;
}

template <typename T, bool kHigh>
Action mad_carry(Context& c, const Instruction& in, LaneMask lanes) {
  const auto* a = c.row<const SlotOf<T>>(in.a);
  const auto* b = c.row<const SlotOf<T>>(in.b);
  const auto* addend = c.row<const SlotOf<T>>(in.c);
  auto* out = c.row<SlotOf<T>>(in.d);
  using U = Unsigned<T>;
  LaneMask next = 0;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const U in_bit = (in.flags & 1) != 0 ? (c.warp->carry >> l & 1) : 0;
    const T x = from_slot<T>(a[l]);
    const T y = from_slot<T>(b[l]);
    const U product = static_cast<U>(kHigh ? MulHigh<T>{}(x, y) : MulLow<T>{}(x, y));
    U sum = 0, total = 0;
    bool overflow = __builtin_add_overflow(product, static_cast<U>(from_slot<T>(addend[l])), &sum);
    overflow |= __builtin_add_overflow(sum, in_bit, &total);
    out[l] = to_slot<U>(total);
    next |= static_cast<LaneMask>(overflow) << l;
  }
  if ((in.flags & 2) != 0) c.warp->carry = (c.warp->carry & ~lanes) | next;
  return Action::next;
}
/// `kHigh`: the half that the opcode itself names; `madc` has it among its modifiers.
template <bool kRead, bool kHigh = false>
void bind_mad_carry(Decode& d) {
  const Type type = d.type();
  operands3(d, type, type);
  d.out.flags = (kRead ? 1u : 0u) | (d.has("cc") || !kRead ? 2u : 0u);
  const bool high = kHigh || d.has("hi");
  switch (type) {
    case Type::u32: d.out.handler = high ? mad_carry<std::uint32_t, true> : mad_carry<std::uint32_t, false>; break;
    case Type::s32: d.out.handler = high ? mad_carry<std::int32_t, true> : mad_carry<std::int32_t, false>; break;
    case Type::u64: d.out.handler = high ? mad_carry<std::uint64_t, true> : mad_carry<std::uint64_t, false>; break;
    case Type::s64: d.out.handler = high ? mad_carry<std::int64_t, true> : mad_carry<std::int64_t, false>; break;
    default: break;
  }
}

/// dp4a / dp2a: dot product of packed bytes.
template <typename A, typename B, int kTerms, int kHigh>
struct Dot {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::uint32_t c) const {
    using First = std::conditional_t<kTerms == 4, A, std::conditional_t<std::is_signed_v<A>, std::int16_t, std::uint16_t>>;
    for (int i = 0; i < kTerms; ++i) {
      const auto x = static_cast<std::int64_t>(static_cast<First>(a >> (32 / kTerms * i)));
      const auto y = static_cast<std::int64_t>(static_cast<B>(b >> (8 * (i + 2 * kHigh))));
      c += static_cast<std::uint32_t>(x * y);
    }
    return c;
  }
};
template <int kTerms, int kHigh>
ir::Handler dot_for(bool a_signed, bool b_signed) {
  using W = std::uint32_t;
  using U = std::uint8_t;
  using S = std::int8_t;
  if (a_signed)
    return b_signed ? ternary<Cost::cheap, W, W, W, W, Dot<S, S, kTerms, kHigh>>
                    : ternary<Cost::cheap, W, W, W, W, Dot<S, U, kTerms, kHigh>>;
  return b_signed ? ternary<Cost::cheap, W, W, W, W, Dot<U, S, kTerms, kHigh>>
                  : ternary<Cost::cheap, W, W, W, W, Dot<U, U, kTerms, kHigh>>;
}
template <int kTerms>
void bind_dot(Decode& d) {
  operands3(d, Type::u32, Type::u32);
  const bool a_signed = d.type(0) == Type::s32;
  const bool b_signed = d.type(1) == Type::s32;
  d.out.handler = kTerms == 2 && d.has("hi") ? dot_for<kTerms, 1>(a_signed, b_signed)
                                             : dot_for<kTerms, 0>(a_signed, b_signed);
}

constexpr ir::OpcodeRow kRows[] = {
    {"mul24", "hi|lo u32|s32", bind_24<false>},
    {"mad24", "hi|lo [sat] u32|s32", bind_24<true>},
    {"sad", "@int", bind_sad},
    {"rem", "@int", bind_costly<Rem>},
    {"add.cc", "@int32", bind_carry<false, false>},
    {"addc", "[cc] @int32", bind_carry<false, true>},
    {"sub.cc", "@int32", bind_carry<true, false>},
    {"subc", "[cc] @int32", bind_carry<true, true>},
    {"mad.lo.cc", "@int32", bind_mad_carry<false>},
    {"mad.hi.cc", "@int32", bind_mad_carry<false, true>},
    {"madc", "lo|hi [cc] @int32", bind_mad_carry<true>},
    {"dp4a", "u32|s32+", bind_dot<4>},
    {"dp2a", "lo|hi u32|s32+", bind_dot<2>},
};

}  // namespace

// Opcodes that also exist for floating point are bound there and come here for integer types.
void bind_integer_add(Decode& d) { bind_add_sub<Add, AddSat>(d); }
void bind_integer_sub(Decode& d) { bind_add_sub<Sub, SubSat>(d); }
void bind_integer_mul(Decode& d) { bind_mul(d); }
void bind_integer_mad(Decode& d) { bind_mad(d); }
void bind_integer_div(Decode& d) { bind_costly<Div>(d); }
void bind_integer_abs(Decode& d) { bind_unary<Abs>(d); }
void bind_integer_neg(Decode& d) { bind_unary<Neg>(d); }

void bind_integer_min_max(Decode& d, bool maximum) {
  const Type type = d.type();
  operands2(d, type);
  const bool relu = d.has("relu");
  using W = std::uint32_t;
  if (type == Type::u16x2) {
    d.out.handler = maximum ? binary<Cost::cheap, W, W, W, Pair<Max, std::uint16_t>>
                            : binary<Cost::cheap, W, W, W, Pair<Min, std::uint16_t>>;
  } else if (type == Type::s16x2) {
    if (relu) {
      d.out.handler = maximum ? binary<Cost::cheap, W, W, W, Pair<MaxRelu, std::int16_t>>
                              : binary<Cost::cheap, W, W, W, Pair<MinRelu, std::int16_t>>;
    } else {
      d.out.handler = maximum ? binary<Cost::cheap, W, W, W, Pair<Max, std::int16_t>>
                              : binary<Cost::cheap, W, W, W, Pair<Min, std::int16_t>>;
    }
  } else if (relu) {
    if (type == Type::s32)
      d.out.handler = maximum ? kBinary<std::int32_t, MaxRelu> : kBinary<std::int32_t, MinRelu>;
  } else {
    d.out.handler = maximum ? binary_for<Max>(type) : binary_for<Min>(type);
  }
}

std::span<const ir::OpcodeRow> integer_opcodes() { return kRows; }

}  // namespace ptxemu::exec
