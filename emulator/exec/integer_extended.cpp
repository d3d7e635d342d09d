// Integer instructions beyond plain arithmetic: 24-bit products, extended precision, dot products.
#include "exec/integer_operations.hpp"
#include "exec/lanes.hpp"
#include "exec/opcodes.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Type;

template <bool kAdd>
struct Mul24 {
  // 24-bit operands in 32-bit registers: low or high 32 bits of the 48-bit product.
  template <typename T, bool kHigh, bool kSaturate = false>
  struct Op {
    T operator()(T a, T b, T c) const {
      const auto cut = [](T v) {
        return static_cast<std::int64_t>(
            std::is_signed_v<T>
                ? static_cast<std::int32_t>(static_cast<std::uint32_t>(v) << 8) >> 8
                : static_cast<std::int64_t>(static_cast<std::uint32_t>(v) & 0xffffff));
      };
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
    d.plain_operands(type, {type, type, type});
  } else {
    d.plain_operands(type, {type, type});
    d.out.c = d.out.b;
  }
  const bool high = d.has("hi");
  using U = std::uint32_t;
  using S = std::int32_t;
  if (d.has("sat")) {
    if (kAdd && high && type == Type::s32)
      d.out.handler =
          ternary<Cost::cheap, S, S, S, S, typename Mul24<kAdd>::template Op<S, true, true>>;
  } else if (type == Type::u32) {
    d.out.handler =
        high ? ternary<Cost::cheap, U, U, U, U, typename Mul24<kAdd>::template Op<U, true>>
             : ternary<Cost::cheap, U, U, U, U, typename Mul24<kAdd>::template Op<U, false>>;
  } else {
    d.out.handler =
        high ? ternary<Cost::cheap, S, S, S, S, typename Mul24<kAdd>::template Op<S, true>>
             : ternary<Cost::cheap, S, S, S, S, typename Mul24<kAdd>::template Op<S, false>>;
  }
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
  d.plain_operands(type, {type, type});
  d.out.flags = (kRead ? 1u : 0u) | (!kRead || d.has("cc") ? 2u : 0u);
  d.out.handler =
      ir::bit_size(type) == 64 ? carry<std::uint64_t, kSubtract> : carry<std::uint32_t, kSubtract>;
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
  d.plain_operands(type, {type, type, type});
  d.out.flags = (kRead ? 1u : 0u) | (d.has("cc") || !kRead ? 2u : 0u);
  const bool high = kHigh || d.has("hi");
  switch (type) {
    case Type::u32:
      d.out.handler = high ? mad_carry<std::uint32_t, true> : mad_carry<std::uint32_t, false>;
      break;
    case Type::s32:
      d.out.handler = high ? mad_carry<std::int32_t, true> : mad_carry<std::int32_t, false>;
      break;
    case Type::u64:
      d.out.handler = high ? mad_carry<std::uint64_t, true> : mad_carry<std::uint64_t, false>;
      break;
    case Type::s64:
      d.out.handler = high ? mad_carry<std::int64_t, true> : mad_carry<std::int64_t, false>;
      break;
    default:
      break;
  }
}

/// dp4a / dp2a: dot product of packed bytes.
template <typename A, typename B, int kTerms, int kHigh>
struct Dot {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::uint32_t c) const {
    using First =
        std::conditional_t<kTerms == 4, A,
                           std::conditional_t<std::is_signed_v<A>, std::int16_t, std::uint16_t>>;
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
  d.plain_operands(Type::u32, {Type::u32, Type::u32, Type::u32});
  const bool a_signed = d.type(0) == Type::s32;
  const bool b_signed = d.type(1) == Type::s32;
  d.out.handler = kTerms == 2 && d.has("hi") ? dot_for<kTerms, 1>(a_signed, b_signed)
                                             : dot_for<kTerms, 0>(a_signed, b_signed);
}

constexpr ir::OpcodeRow kRows[] = {
    {"mul24", "hi|lo u32|s32", bind_24<false>},
    {"mad24", "hi|lo [sat] u32|s32", bind_24<true>},
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

std::span<const ir::OpcodeRow> extended_integer_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec
