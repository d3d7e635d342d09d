// setp, set, selp, slct.
#include "exec/float_values.hpp"
#include "exec/lanes.hpp"
#include "exec/opcodes.hpp"
#include "numeric/convert.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Type;
using U16 = std::uint16_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

enum class Comparison { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

template <Comparison kComparison, typename T>
bool compare(T a, T b) {
  const bool unordered = a != a || b != b;
  switch (kComparison) {
    case Comparison::eq:
      return a == b;
    case Comparison::ne:
      return a != b && !unordered;
    case Comparison::lt:
      return a < b;
    case Comparison::le:
      return a <= b;
    case Comparison::gt:
      return a > b;
    case Comparison::ge:
      return a >= b;
    case Comparison::equ:
      return a == b || unordered;
    case Comparison::neu:
      return a != b;
    case Comparison::ltu:
      return !(a >= b);
    case Comparison::leu:
      return !(a > b);
    case Comparison::gtu:
      return !(a <= b);
    case Comparison::geu:
      return !(a < b);
    case Comparison::num:
      return !unordered;
    case Comparison::nan:
      return unordered;
  }
}

// How a register's bits become a comparable value.
template <typename T>
struct Plain {
  using Stored = T;
  static T value(T bits) { return bits; }
};
struct Flushed {
  using Stored = float;
  static float value(float x) { return flush<true>(x); }
};
struct Half {
  using Stored = U16;
  static float value(U16 bits) { return numeric::f16_to_f32(bits); }
};
struct HalfFlushed {
  using Stored = U16;
  static float value(U16 bits) {
    return numeric::f16_to_f32((bits & 0x7c00) == 0 ? bits & 0x8000 : bits);
  }
};
struct BFloat {
  using Stored = U16;
  static float value(U16 bits) { return numeric::bf16_to_f32(bits); }
};

template <typename V, Comparison kComparison>
LaneMask evaluate(Context& c, const Instruction& in) {
  using T = typename V::Stored;
  return compare_rows<T, T>(
      c.row<const SlotOf<T>>(in.a), c.row<const SlotOf<T>>(in.b),
      [](T a, T b) { return compare<kComparison>(V::value(a), V::value(b)); });
}
using Evaluate = LaneMask (*)(Context&, const Instruction&);

// Combination with a third, predicate operand: flags bits 0-1.
enum : U32 { kNoCombination, kAnd, kOr, kXor };

template <Evaluate kEvaluate>
Action setp(Context& c, const Instruction& in, LaneMask lanes) {
  const LaneMask result = kEvaluate(c, in);
  if (in.flags == kNoCombination) {
    c.set_predicate(in.d, lanes, result);
    if (in.d2.present()) c.set_predicate(in.d2, lanes, ~result);
    return Action::next;
  }
  const LaneMask third = c.predicate(in.c);
  const auto combine = [&](LaneMask value) {
    return in.flags == kAnd ? value & third : in.flags == kOr ? value | third : value ^ third;
  };
  c.set_predicate(in.d, lanes, combine(result));
  if (in.d2.present()) c.set_predicate(in.d2, lanes, combine(~result));
  return Action::next;
}

/// set: 1.0f, 0xffffffff or 0 as a value. flags bit 2: floating-point one (f32), bit 3: f16, bit 4:
/// bf16.
template <Evaluate kEvaluate>
Action set(Context& c, const Instruction& in, LaneMask lanes) {
  LaneMask result = kEvaluate(c, in);
  const U32 combination = in.flags & 3;
  if (combination != kNoCombination) {
    const LaneMask third = c.predicate(in.c);
    result = combination == kAnd  ? result & third
             : combination == kOr ? result | third
                                  : result ^ third;
  }
  const U32 yes = (in.flags & 4) != 0    ? 0x3f800000u
                  : (in.flags & 8) != 0  ? 0x3c00u
                  : (in.flags & 16) != 0 ? 0x3f80u
                                         : ~0u;
  auto* out = c.row<U32>(in.d);
  for (int l = 0; l < kWarpSize; ++l) {
    const U32 value = (result >> l & 1) != 0 ? yes : 0;
    out[l] = (lanes >> l & 1) != 0 ? value : out[l];
  }
  return Action::next;
}

/// Packed halves: two predicates (setp) or two 16-bit results in one register (set).
template <typename V, Comparison kComparison>
Action setp_packed(Context& c, const Instruction& in, LaneMask lanes) {
  const auto* a = c.row<const U32>(in.a);
  const auto* b = c.row<const U32>(in.b);
  LaneMask low = 0, high = 0;
  for (int l = 0; l < kWarpSize; ++l) {
    low |= LaneMask{compare<kComparison>(V::value(U16(a[l])), V::value(U16(b[l])))} << l;
    high |= LaneMask{compare<kComparison>(V::value(U16(a[l] >> 16)), V::value(U16(b[l] >> 16)))}
            << l;
  }
  c.set_predicate(in.d, lanes, low);
  if (in.d2.present()) c.set_predicate(in.d2, lanes, high);
  return Action::next;
}
template <typename V, Comparison kComparison>
Action set_packed(Context& c, const Instruction& in, LaneMask lanes) {
  const U32 yes = (in.flags & 8) != 0 ? 0x3c00u : (in.flags & 16) != 0 ? 0x3f80u : 0xffffu;
  map2<Cost::costly, U32, U32, U32>(c, in, lanes, [yes](U32 a, U32 b) {
    const bool low = compare<kComparison>(V::value(U16(a)), V::value(U16(b)));
    const bool high = compare<kComparison>(V::value(U16(a >> 16)), V::value(U16(b >> 16)));
    return (low ? yes : 0) | (high ? yes << 16 : 0);
  });
  return Action::next;
}

struct Handlers {
  ir::Handler setp, set;
};
template <typename V, Comparison kComparison>
constexpr Handlers kHandlers{setp<evaluate<V, kComparison>>, set<evaluate<V, kComparison>>};
template <typename V, Comparison kComparison>
constexpr Handlers kPackedHandlers{setp_packed<V, kComparison>, set_packed<V, kComparison>};

template <typename V, bool kPacked>
Handlers handlers_for(Comparison comparison) {
  using enum Comparison;
#define PTXEMU_CASE(NAME)              \
  case NAME:                           \
    if constexpr (kPacked)             \
      return kPackedHandlers<V, NAME>; \
    else                               \
      return kHandlers<V, NAME>
  switch (comparison) {
    PTXEMU_CASE(eq);
    PTXEMU_CASE(ne);
    PTXEMU_CASE(lt);
    PTXEMU_CASE(le);
    PTXEMU_CASE(gt);
    PTXEMU_CASE(ge);
    PTXEMU_CASE(equ);
    PTXEMU_CASE(neu);
    PTXEMU_CASE(ltu);
    PTXEMU_CASE(leu);
    PTXEMU_CASE(gtu);
    PTXEMU_CASE(geu);
    PTXEMU_CASE(num);
    PTXEMU_CASE(nan);
  }
#undef PTXEMU_CASE
  return {};
}

Comparison comparison_of(Decode& d) {
  static constexpr std::string_view kNames[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                                "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  static constexpr std::pair<std::string_view, Comparison> kUnsigned[] = {{"lo", Comparison::lt},
                                                                          {"ls", Comparison::le},
                                                                          {"hi", Comparison::gt},
                                                                          {"hs", Comparison::ge}};
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (d.has(kNames[i])) return static_cast<Comparison>(i);
  }
  for (const auto& [name, comparison] : kUnsigned) {
    if (d.has(name)) return comparison;
  }
  d.fail("no comparison operator");
}

Handlers select(Decode& d, Type type) {
  const Comparison comparison = comparison_of(d);
  const bool ftz = d.has("ftz");
  switch (type) {
    case Type::b16:
    case Type::u16:
      return handlers_for<Plain<U16>, false>(comparison);
    case Type::s16:
      return handlers_for<Plain<std::int16_t>, false>(comparison);
    case Type::b32:
    case Type::u32:
      return handlers_for<Plain<U32>, false>(comparison);
    case Type::s32:
      return handlers_for<Plain<std::int32_t>, false>(comparison);
    case Type::b64:
    case Type::u64:
      return handlers_for<Plain<U64>, false>(comparison);
    case Type::s64:
      return handlers_for<Plain<std::int64_t>, false>(comparison);
    case Type::f32:
      return ftz ? handlers_for<Flushed, false>(comparison)
                 : handlers_for<Plain<float>, false>(comparison);
    case Type::f64:
      return handlers_for<Plain<double>, false>(comparison);
    case Type::f16:
      return ftz ? handlers_for<HalfFlushed, false>(comparison)
                 : handlers_for<Half, false>(comparison);
    case Type::f16x2:
      return ftz ? handlers_for<HalfFlushed, true>(comparison)
                 : handlers_for<Half, true>(comparison);
    case Type::bf16:
      return handlers_for<BFloat, false>(comparison);
    case Type::bf16x2:
      return handlers_for<BFloat, true>(comparison);
    default:
      return {};
  }
}

void combination(Decode& d, bool packed) {
  if (!d.has("and") && !d.has("or") && !d.has("xor")) return d.require_operands(3, 3);
  if (packed) d.unsupported("packed comparisons combined with a predicate are not supported");
  d.require_operands(4, 4);
  d.out.flags |= d.has("and") ? kAnd : d.has("or") ? kOr : kXor;
  d.out.c = d.predicate(d.operand(3));
}

void bind_setp(Decode& d) {
  const Type type = d.type();
  d.out.type = Type::pred;
  d.out.source_type = type;
  d.destination_and_predicate(0, Type::pred);
  d.out.a = d.source(1, type);
  d.out.b = d.source(2, type);
  combination(d, type == Type::f16x2 || type == Type::bf16x2);
  d.out.handler = select(d, type).setp;
}

void bind_set(Decode& d) {
  const Type result = d.type(0);
  const Type type = d.type(1);
  d.out.type = result;
  d.out.source_type = type;
  d.out.d = d.destination(0, result);
  d.out.a = d.source(1, type);
  d.out.b = d.source(2, type);
  combination(d, type == Type::f16x2 || type == Type::bf16x2);
  if (result == Type::f32) d.out.flags |= 4;
  if (result == Type::f16 || result == Type::f16x2) d.out.flags |= 8;
  if (result == Type::bf16 || result == Type::bf16x2) d.out.flags |= 16;
  d.out.handler = select(d, type).set;
}

template <typename T>
Action selp(Context& c, const Instruction& in, LaneMask lanes) {
  const LaneMask choose = c.predicate(in.c);
  const auto* a = c.row<const T>(in.a);
  const auto* b = c.row<const T>(in.b);
  auto* out = c.row<T>(in.d);
  if (lanes == kFullMask) {
    for (int l = 0; l < kWarpSize; ++l) out[l] = (choose >> l & 1) != 0 ? a[l] : b[l];
  } else {
    for (int l = 0; l < kWarpSize; ++l) {
      const T value = (choose >> l & 1) != 0 ? a[l] : b[l];
      out[l] = (lanes >> l & 1) != 0 ? value : out[l];
    }
  }
  return Action::next;
}
void bind_selp(Decode& d) {
  const Type type = d.type();
  d.plain_operands(type, {type, type, Type::pred});
  d.out.handler = ir::bit_size(type) == 64 ? selp<U64> : selp<U32>;
}

template <typename T, bool kFloat, bool kFlush>
Action slct(Context& c, const Instruction& in, LaneMask lanes) {
  const auto* a = c.row<const T>(in.a);
  const auto* b = c.row<const T>(in.b);
  const auto* selector = c.row<const U32>(in.c);
  auto* out = c.row<T>(in.d);
  for (int l = 0; l < kWarpSize; ++l) {
    const bool first = kFloat ? flush<kFlush>(std::bit_cast<float>(selector[l])) >= 0.0F
                              : static_cast<std::int32_t>(selector[l]) >= 0;
    const T value = first ? a[l] : b[l];
    out[l] = (lanes >> l & 1) != 0 ? value : out[l];
  }
  return Action::next;
}
void bind_slct(Decode& d) {
  const Type type = d.type(0);
  const Type selector = d.types().size() > 1 ? d.type(1) : type;
  d.plain_operands(type, {type, type, selector});
  const bool wide = ir::bit_size(type) == 64;
  if (ir::bit_size(selector) != 32) return;
  if (selector == Type::f32) {
    if (d.has("ftz")) {
      d.out.handler = wide ? slct<U64, true, true> : slct<U32, true, true>;
    } else {
      d.out.handler = wide ? slct<U64, true, false> : slct<U32, true, false>;
    }
  } else {
    d.out.handler = wide ? slct<U64, false, false> : slct<U32, false, false>;
  }
}

constexpr ir::OpcodeRow kRows[] = {
    {"setp", "@compare [and|or|xor] [ftz] @bits|@int|f32|f64|@half", bind_setp},
    {"set", "@compare [and|or|xor] [ftz] @bits|@int|f32|f64|@half+", bind_set},
    {"selp", "@bits|@int|f16|bf16|f32|f64", bind_selp},
    {"slct", "[ftz] b16|u16|s16|b32|b64|u32|u64|s32|s64|f32|f64+", bind_slct},
};

}  // namespace

std::span<const ir::OpcodeRow> compare_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec
