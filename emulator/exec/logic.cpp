// Bitwise logic, shifts, bit fields, byte permutation.
#include <algorithm>

#include "exec/lanes.hpp"
#include "exec/opcodes.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Type;
using U16 = std::uint16_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;
using S32 = std::int32_t;
using S64 = std::int64_t;

struct And {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <typename T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};
struct LogicalNot {
  template <typename T>
  T operator()(T a) const {
    return a == 0 ? 1 : 0;
  }
};

/// Predicates are lane masks: logic on them is one word operation.
template <typename F>
Action predicate_binary(Context& c, const Instruction& in, LaneMask lanes) {
  c.set_predicate(in.d, lanes, F{}(c.predicate(in.a), c.predicate(in.b)));
  return Action::next;
}
Action predicate_not(Context& c, const Instruction& in, LaneMask lanes) {
  c.set_predicate(in.d, lanes, ~c.predicate(in.a));
  return Action::next;
}

template <typename F>
void bind_bitwise(Decode& d) {
  const Type type = d.type();
  d.plain_operands(type, {type, type});
  switch (type) {
    case Type::pred:
      d.out.handler = predicate_binary<F>;
      break;
    case Type::b16:
      d.out.handler = binary<Cost::cheap, U16, U16, U16, F>;
      break;
    case Type::b32:
      d.out.handler = binary<Cost::cheap, U32, U32, U32, F>;
      break;
    default:
      d.out.handler = binary<Cost::cheap, U64, U64, U64, F>;
      break;
  }
}

template <typename F, bool kPredicates>
void bind_not(Decode& d) {
  const Type type = d.type();
  d.plain_operands(type, {type});
  switch (type) {
    case Type::pred:
      d.out.handler = predicate_not;
      break;
    case Type::b16:
      d.out.handler = unary<Cost::cheap, U16, U16, F>;
      break;
    case Type::b32:
      d.out.handler = unary<Cost::cheap, U32, U32, F>;
      break;
    default:
      d.out.handler = unary<Cost::cheap, U64, U64, F>;
      break;
  }
}

// Shift amounts are unsigned 32-bit values and clamp at the width.
template <typename T>
struct ShiftLeft {
  T operator()(T a, U32 n) const { return n >= sizeof(T) * 8 ? T{0} : static_cast<T>(a << n); }
};
template <typename T>
struct ShiftRight {
  T operator()(T a, U32 n) const {
    const U32 most = sizeof(T) * 8 - 1;
    if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> std::min(n, most));
    return n > most ? T{0} : static_cast<T>(a >> n);
  }
};

template <template <typename> class F>
void bind_shift(Decode& d) {
  const Type type = d.type();
  d.plain_operands(type, {type, Type::u32});
  switch (type) {
    case Type::b16:
    case Type::u16:
      d.out.handler = binary<Cost::cheap, U16, U16, U32, F<U16>>;
      break;
    case Type::s16:
      d.out.handler = binary<Cost::cheap, std::int16_t, std::int16_t, U32, F<std::int16_t>>;
      break;
    case Type::b32:
    case Type::u32:
      d.out.handler = binary<Cost::cheap, U32, U32, U32, F<U32>>;
      break;
    case Type::s32:
      d.out.handler = binary<Cost::cheap, S32, S32, U32, F<S32>>;
      break;
    case Type::s64:
      d.out.handler = binary<Cost::cheap, S64, S64, U32, F<S64>>;
      break;
    default:
      d.out.handler = binary<Cost::cheap, U64, U64, U32, F<U64>>;
      break;
  }
}

/// shf: the funnel of {b, a} (b is the high word).
template <bool kLeft, bool kWrap>
struct Funnel {
  U32 operator()(U32 a, U32 b, U32 n) const {
    n = kWrap ? n & 31 : std::min(n, 32u);
    const U64 joined = U64{b} << 32 | a;
    return static_cast<U32>(kLeft ? joined << n >> 32 : joined >> n);
  }
};
void bind_shf(Decode& d) {
  d.require_operands(4, 4);
  d.out.type = Type::b32;
  d.out.d = d.destination(0, Type::b32);
  d.out.a = d.source(1, Type::b32);
  d.out.b = d.source(2, Type::b32);
  d.out.c = d.source(3, Type::u32);
  const bool wrap = d.has("wrap");
  if (d.has("l")) {
    d.out.handler = wrap ? ternary<Cost::cheap, U32, U32, U32, U32, Funnel<true, true>>
                         : ternary<Cost::cheap, U32, U32, U32, U32, Funnel<true, false>>;
  } else {
    d.out.handler = wrap ? ternary<Cost::cheap, U32, U32, U32, U32, Funnel<false, true>>
                         : ternary<Cost::cheap, U32, U32, U32, U32, Funnel<false, false>>;
  }
}

/// Any function of three bits: eight masked products of the inputs, chosen by the table.
Action lop3(Context& c, const Instruction& in, LaneMask lanes) {
  const auto table = static_cast<U32>(in.immediate);
  const auto f = [table](U32 a, U32 b, U32 x) {
    U32 result = 0;
    for (unsigned row = 0; row < 8; ++row) {
      if ((table >> row & 1) == 0) continue;
      result |= ((row & 4) != 0 ? a : ~a) & ((row & 2) != 0 ? b : ~b) & ((row & 1) != 0 ? x : ~x);
    }
    return result;
  };
  map3<Cost::cheap, U32, U32, U32, U32>(c, in, lanes, f);
  return Action::next;
}
/// With .BoolOp: also a predicate, whether the result is not zero, combined with another.
Action lop3_predicate(Context& c, const Instruction& in, LaneMask lanes) {
  lop3(c, in, lanes);
  const auto* result = c.row<const U32>(in.d);
  LaneMask nonzero = 0;
  for (int l = 0; l < kWarpSize; ++l) nonzero |= static_cast<LaneMask>(result[l] != 0) << l;
  const LaneMask other = c.predicate(in.list[0]);
  c.set_predicate(in.d2, lanes, in.flags != 0 ? nonzero & other : nonzero | other);
  return Action::next;
}
void bind_lop3(Decode& d) {
  const bool combines = d.has("or") || d.has("and");
  d.require_operands(combines ? 6 : 5, combines ? 6 : 5);
  d.out.type = Type::b32;
  d.destination_and_predicate(0, Type::b32);
  d.out.a = d.source(1, Type::b32);
  d.out.b = d.source(2, Type::b32);
  d.out.c = d.source(3, Type::b32);
  d.out.immediate = d.constant(4, 0, 255);
  d.out.handler = lop3;
  if (!combines) return;
  if (!d.out.d2.present()) d.fail("lop3 with .and or .or has two destinations: d|p");
  d.out.list = d.keep({d.predicate(d.operand(5))});
  d.out.flags = d.has("and") ? 1 : 0;
  d.out.handler = lop3_predicate;
}

template <typename T>
struct PopCount {
  U32 operator()(T a) const { return static_cast<U32>(std::popcount(a)); }
};
template <typename T>
struct LeadingZeros {
  U32 operator()(T a) const { return static_cast<U32>(std::countl_zero(a)); }
};
template <typename T>
struct Reverse {
  T operator()(T a) const {
    T result = 0;
    for (unsigned i = 0; i < sizeof(T) * 8; ++i) result |= (a >> i & 1) << (sizeof(T) * 8 - 1 - i);
    return result;
  }
};
/// Position of the most significant bit that differs from the sign; all ones if there is none.
template <typename T, bool kShiftAmount>
struct FindBit {
  U32 operator()(T a) const {
    using U = std::make_unsigned_t<T>;
    U value = static_cast<U>(a);
    if constexpr (std::is_signed_v<T>) {
      if (a < 0) value = static_cast<U>(~value);
    }
    if (value == 0) return ~0u;
    const auto zeros = static_cast<U32>(std::countl_zero(value));
    return kShiftAmount ? zeros : static_cast<U32>(sizeof(T) * 8 - 1) - zeros;
  }
};

template <template <typename> class F, bool kSameWidth>
void bind_count(Decode& d) {
  const Type type = d.type();
  d.require_operands(2, 2);
  d.out.type = kSameWidth ? type : Type::u32;
  d.out.source_type = type;
  d.out.d = d.destination(0, d.out.type);
  d.out.a = d.source(1, type);
  using Wide = std::conditional_t<kSameWidth, U64, U32>;
  d.out.handler = ir::bit_size(type) == 64 ? unary<Cost::cheap, Wide, U64, F<U64>>
                                           : unary<Cost::cheap, U32, U32, F<U32>>;
}
void bind_bfind(Decode& d) {
  const Type type = d.type();
  d.require_operands(2, 2);
  d.out.type = Type::u32;
  d.out.source_type = type;
  d.out.d = d.destination(0, Type::u32);
  d.out.a = d.source(1, type);
  const bool shift = d.has("shiftamt");
  switch (type) {
    case Type::u32:
      d.out.handler = shift ? unary<Cost::cheap, U32, U32, FindBit<U32, true>>
                            : unary<Cost::cheap, U32, U32, FindBit<U32, false>>;
      break;
    case Type::s32:
      d.out.handler = shift ? unary<Cost::cheap, U32, S32, FindBit<S32, true>>
                            : unary<Cost::cheap, U32, S32, FindBit<S32, false>>;
      break;
    case Type::u64:
      d.out.handler = shift ? unary<Cost::cheap, U32, U64, FindBit<U64, true>>
                            : unary<Cost::cheap, U32, U64, FindBit<U64, false>>;
      break;
    default:
      d.out.handler = shift ? unary<Cost::cheap, U32, S64, FindBit<S64, true>>
                            : unary<Cost::cheap, U32, S64, FindBit<S64, false>>;
      break;
  }
}

/// bfe: `len` bits from `pos`, sign-extended from the field's top bit (or the value's, beyond it).
template <typename T>
struct Extract {
  T operator()(T a, U32 position, U32 length) const {
    using U = std::make_unsigned_t<T>;
    constexpr U32 kBits = sizeof(T) * 8;
    position &= 255;
    length &= 255;
    const U value = static_cast<U>(a);
    U field = position >= kBits ? U{0} : static_cast<U>(value >> position);
    if (length < kBits) field &= static_cast<U>((U{1} << length) - 1);
    if constexpr (std::is_signed_v<T>) {
      if (length == 0) return 0;
      const U32 top = std::min(position + length - 1, kBits - 1);
      const bool sign = (value >> top & 1) != 0;
      const U32 kept = position >= kBits ? 0 : std::min(length, kBits - position);
      if (sign && kept < kBits) field |= static_cast<U>(~U{0} << kept);
    }
    return static_cast<T>(field);
  }
};
void bind_bfe(Decode& d) {
  const Type type = d.type();
  d.plain_operands(type, {type, Type::u32, Type::u32});
  switch (type) {
    case Type::u32:
      d.out.handler = ternary<Cost::cheap, U32, U32, U32, U32, Extract<U32>>;
      break;
    case Type::s32:
      d.out.handler = ternary<Cost::cheap, S32, S32, U32, U32, Extract<S32>>;
      break;
    case Type::u64:
      d.out.handler = ternary<Cost::cheap, U64, U64, U32, U32, Extract<U64>>;
      break;
    default:
      d.out.handler = ternary<Cost::cheap, S64, S64, U32, U32, Extract<S64>>;
      break;
  }
}

/// bfi has four sources; the fourth is in `list`.
template <typename T>
Action insert(Context& c, const Instruction& in, LaneMask lanes) {
  const auto* field = c.row<const T>(in.a);
  const auto* into = c.row<const T>(in.b);
  const auto* position = c.row<const U32>(in.c);
  const auto* length = c.row<const U32>(in.list[0]);
  auto* out = c.row<T>(in.d);
  constexpr U32 kBits = sizeof(T) * 8;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const U32 p = position[l] & 255;
    const U32 n = length[l] & 255;
    T mask = n >= kBits ? ~T{0} : static_cast<T>((T{1} << n) - 1);
    mask = p >= kBits ? T{0} : static_cast<T>(mask << p);
    const T shifted = p >= kBits ? T{0} : static_cast<T>(field[l] << p);
    out[l] = (into[l] & ~mask) | (shifted & mask);
  }
  return Action::next;
}
void bind_bfi(Decode& d) {
  const Type type = d.type();
  d.require_operands(5, 5);
  d.out.type = type;
  d.out.d = d.destination(0, type);
  d.out.a = d.source(1, type);
  d.out.b = d.source(2, type);
  d.out.c = d.source(3, Type::u32);
  d.out.list = d.keep({d.source(4, Type::u32)});
  d.out.handler = type == Type::b64 ? insert<U64> : insert<U32>;
}

template <bool kWrap>
struct BitMask {
  U32 operator()(U32 a, U32 b) const {
    if (kWrap) {
      a &= 31;
      b &= 31;
    }
    if (a >= 32) return 0;
    const U32 ones = b >= 32 ? ~0u : (1u << b) - 1;
    return ones << a;
  }
};
void bind_bmsk(Decode& d) {
  d.require_operands(3, 3);
  d.out.type = Type::b32;
  d.out.d = d.destination(0, Type::b32);
  d.out.a = d.source(1, Type::u32);
  d.out.b = d.source(2, Type::u32);
  d.out.handler = d.has("wrap") ? binary<Cost::cheap, U32, U32, U32, BitMask<true>>
                                : binary<Cost::cheap, U32, U32, U32, BitMask<false>>;
}

template <bool kSigned, bool kWrap>
struct SizeExtend {
  U32 operator()(U32 a, U32 n) const {
    if (kWrap) n &= 31;
    if (n >= 32) return a;
    if (n == 0) return 0;
    const U32 low = a & ((1u << n) - 1);
    return kSigned && (low >> (n - 1) & 1) != 0 ? low | ~0u << n : low;
  }
};
void bind_szext(Decode& d) {
  const Type type = d.type();
  d.plain_operands(type, {type, Type::u32});
  const bool wrap = d.has("wrap");
  if (type == Type::s32) {
    d.out.handler = wrap ? binary<Cost::cheap, U32, U32, U32, SizeExtend<true, true>>
                         : binary<Cost::cheap, U32, U32, U32, SizeExtend<true, false>>;
  } else {
    d.out.handler = wrap ? binary<Cost::cheap, U32, U32, U32, SizeExtend<false, true>>
                         : binary<Cost::cheap, U32, U32, U32, SizeExtend<false, false>>;
  }
}

/// fns: the position of the n-th set bit from `base` upwards (n > 0) or downwards (n < 0).
struct FindNthSet {
  U32 operator()(U32 mask, U32 base, S32 n) const {
    if (base > 31) return ~0u;
    if (n == 0) return (mask >> base & 1) != 0 ? base : ~0u;
    S32 position = static_cast<S32>(base);
    const S32 step = n > 0 ? 1 : -1;
    for (S32 left = std::abs(static_cast<S64>(n)) > 32 ? 33 : std::abs(n);
         position >= 0 && position < 32; position += step) {
      if ((mask >> position & 1) != 0 && --left == 0) return static_cast<U32>(position);
    }
    return ~0u;
  }
};
void bind_fns(Decode& d) {
  d.require_operands(4, 4);
  d.out.type = Type::b32;
  d.out.d = d.destination(0, Type::b32);
  d.out.a = d.source(1, Type::b32);
  d.out.b = d.source(2, Type::b32);
  d.out.c = d.source(3, Type::s32);
  d.out.handler = ternary<Cost::costly, U32, U32, U32, S32, FindNthSet>;
}

enum class Permute { generic, f4e, b4e, rc8, ecl, ecr, rc16 };
template <Permute kMode>
struct PermuteBytes {
  U32 operator()(U32 a, U32 b, U32 selector) const {
    const U64 bytes = U64{b} << 32 | a;
    const U32 n = selector & 3;
    U32 result = 0;
    for (U32 i = 0; i < 4; ++i) {
      U32 index = 0;
      bool sign = false;
      switch (kMode) {
        case Permute::generic:
          index = selector >> (4 * i) & 7;
          sign = (selector >> (4 * i + 3) & 1) != 0;
          break;
        case Permute::f4e:
          index = i + n;
          break;
        case Permute::b4e:
          index = (n + 8 - i) & 7;
          break;
        case Permute::rc8:
          index = n;
          break;
        case Permute::ecl:
          index = std::max(i, n);
          break;
        case Permute::ecr:
          index = std::min(i, n);
          break;
        case Permute::rc16:
          index = (n & 1) * 2 + (i & 1);
          break;
      }
      U32 byte = static_cast<U32>(bytes >> (8 * index)) & 0xff;
      if (sign) byte = (byte & 0x80) != 0 ? 0xff : 0;
      result |= byte << (8 * i);
    }
    return result;
  }
};
void bind_prmt(Decode& d) {
  d.require_operands(4, 4);
  d.out.type = Type::b32;
  d.out.d = d.destination(0, Type::b32);
  d.out.a = d.source(1, Type::b32);
  d.out.b = d.source(2, Type::b32);
  d.out.c = d.source(3, Type::b32);
  const std::string_view mode = d.one_of({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  d.out.handler =
      mode == "f4e"    ? ternary<Cost::cheap, U32, U32, U32, U32, PermuteBytes<Permute::f4e>>
      : mode == "b4e"  ? ternary<Cost::cheap, U32, U32, U32, U32, PermuteBytes<Permute::b4e>>
      : mode == "rc8"  ? ternary<Cost::cheap, U32, U32, U32, U32, PermuteBytes<Permute::rc8>>
      : mode == "ecl"  ? ternary<Cost::cheap, U32, U32, U32, U32, PermuteBytes<Permute::ecl>>
      : mode == "ecr"  ? ternary<Cost::cheap, U32, U32, U32, U32, PermuteBytes<Permute::ecr>>
      : mode == "rc16" ? ternary<Cost::cheap, U32, U32, U32, U32, PermuteBytes<Permute::rc16>>
                       : ternary<Cost::cheap, U32, U32, U32, U32, PermuteBytes<Permute::generic>>;
}

constexpr ir::OpcodeRow kRows[] = {
    {"and", "pred|@bits", bind_bitwise<And>},
    {"or", "pred|@bits", bind_bitwise<Or>},
    {"xor", "pred|@bits", bind_bitwise<Xor>},
    {"not", "pred|@bits", bind_not<Not, true>},
    {"cnot", "@bits", bind_not<LogicalNot, false>},
    {"lop3", "[or|and] b32", bind_lop3},
    {"shl", "@bits", bind_shift<ShiftLeft>},
    {"shr", "@bits|@int", bind_shift<ShiftRight>},
    {"shf", "l|r clamp|wrap b32", bind_shf},
    {"popc", "b32|b64", bind_count<PopCount, false>},
    {"clz", "b32|b64", bind_count<LeadingZeros, false>},
    {"brev", "b32|b64", bind_count<Reverse, true>},
    {"bfind", "[shiftamt] @int32", bind_bfind},
    {"bfe", "@int32", bind_bfe},
    {"bfi", "b32|b64", bind_bfi},
    {"bmsk", "clamp|wrap b32", bind_bmsk},
    {"szext", "clamp|wrap u32|s32", bind_szext},
    {"fns", "b32", bind_fns},
    {"prmt", "b32 [f4e|b4e|rc8|ecl|ecr|rc16]", bind_prmt},
};

}  // namespace

std::span<const ir::OpcodeRow> logic_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec
