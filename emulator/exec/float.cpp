// Arithmetic on f32 and f64 (and packed f32x2), with the opcodes shared with integers and halves.
#include "exec/float_values.hpp"
#include "exec/half.hpp"
#include "exec/integer.hpp"
#include "exec/lanes.hpp"
#include "exec/opcodes.hpp"
#include "numeric/arithmetic.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Handler;
using ir::Type;
using numeric::Rounding;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

enum class Operation { add, sub, mul, fma };

template <typename T, Operation kOperation>
T exact(T a, T b, T c) {
  switch (kOperation) {
    case Operation::add:
      return a + b;
    case Operation::sub:
      return a - b;
    case Operation::mul:
      return a * b;
    case Operation::fma:
      return std::fma(a, b, c);
  }
}
template <typename T, Operation kOperation>
T rounded(T a, T b, T c, Rounding rounding) {
  switch (kOperation) {
    case Operation::add:
      return numeric::add(a, b, rounding);
    case Operation::sub:
      return numeric::add(a, -b, rounding);
    case Operation::mul:
      return numeric::mul(a, b, rounding);
    case Operation::fma:
      return numeric::fma(a, b, c, rounding);
  }
}

/// One arithmetic operation with its modifiers fixed at compile time.
template <Operation kOperation, Rounding kRounding, bool kFlush, bool kSaturate>
struct Arithmetic32 {
  float operator()(float a, float b, float c) const {
    a = flush<kFlush>(a);
    b = flush<kFlush>(b);
    c = flush<kFlush>(c);
    float r = kRounding == Rounding::rn ? exact<float, kOperation>(a, b, c)
                                        : rounded<float, kOperation>(a, b, c, kRounding);
    if constexpr (kFlush && (kOperation == Operation::mul || kOperation == Operation::fma)) {
      // Hardware flushes what is below 2^-126 after rounding to 24 bits with unbounded exponent.
      if constexpr (kRounding == Rounding::rn || kRounding == Rounding::rz) {
        constexpr double kLimit = kRounding == Rounding::rn ? 0x1p-126 * (1 - 0x1p-25) : 0x1p-126;
        const double product = static_cast<double>(a) * static_cast<double>(b);
        const double whole =
            kOperation == Operation::fma ? product + static_cast<double>(c) : product;
        r = std::fabs(whole) < kLimit ? std::copysign(0.0F, r) : r;
      } else {
        r = kOperation == Operation::fma ? numeric::fma_ftz(a, b, c, kRounding)
                                         : numeric::mul_ftz(a, b, kRounding);
      }
    } else {
      r = flush<kFlush>(r);
    }
    return kSaturate ? saturate(r) : canonical(r);
  }
};
template <Operation kOperation, Rounding kRounding>
struct Arithmetic64 {
  double operator()(double a, double b, double c) const {
    return canonical(kRounding == Rounding::rn ? exact<double, kOperation>(a, b, c)
                                               : rounded<double, kOperation>(a, b, c, kRounding));
  }
};
/// Both halves of a 64-bit register.
template <typename F>
struct Packed {
  U64 operator()(U64 a, U64 b, U64 c) const {
    const auto part = [](U64 v, int i) {
      return std::bit_cast<float>(static_cast<U32>(v >> (32 * i)));
    };
    const F f;
    return U64{std::bit_cast<U32>(f(part(a, 0), part(b, 0), part(c, 0)))} |
           U64{std::bit_cast<U32>(f(part(a, 1), part(b, 1), part(c, 1)))} << 32;
  }
};

template <Operation kOperation, Rounding kRounding>
Handler arithmetic_with(Type type, bool ftz, bool sat) {
  constexpr Cost kCost = kRounding == Rounding::rn ? Cost::cheap : Cost::costly;
  using F00 = Arithmetic32<kOperation, kRounding, false, false>;
  using F10 = Arithmetic32<kOperation, kRounding, true, false>;
  using F01 = Arithmetic32<kOperation, kRounding, false, true>;
  using F11 = Arithmetic32<kOperation, kRounding, true, true>;
  if (type == Type::f32) {
    if (sat)
      return ftz ? ternary<kCost, float, float, float, float, F11>
                 : ternary<kCost, float, float, float, float, F01>;
    return ftz ? ternary<kCost, float, float, float, float, F10>
               : ternary<kCost, float, float, float, float, F00>;
  }
  if (type == Type::f32x2 && !sat)
    return ftz ? ternary<kCost, U64, U64, U64, U64, Packed<F10>>
               : ternary<kCost, U64, U64, U64, U64, Packed<F00>>;
  if (type == Type::f64 && !ftz && !sat)
    return ternary<kCost, double, double, double, double, Arithmetic64<kOperation, kRounding>>;
  return nullptr;
}

template <Operation kOperation>
void bind_arithmetic(Decode& d) {
  const Type type = d.type();
  constexpr bool kThree = kOperation == Operation::fma;
  d.require_operands(kThree ? 4 : 3, kThree ? 4 : 3);
  d.out.type = type;
  d.out.d = d.destination(0, type);
  d.out.a = d.source(1, type);
  d.out.b = d.source(2, type);
  d.out.c = kThree ? d.source(3, type) : d.out.b;
  const bool ftz = d.has("ftz");
  const bool sat = d.has("sat");
  if (d.has("rz")) {
    d.out.handler = arithmetic_with<kOperation, Rounding::rz>(type, ftz, sat);
  } else if (d.has("rm")) {
    d.out.handler = arithmetic_with<kOperation, Rounding::rm>(type, ftz, sat);
  } else if (d.has("rp")) {
    d.out.handler = arithmetic_with<kOperation, Rounding::rp>(type, ftz, sat);
  } else {
    d.out.handler = arithmetic_with<kOperation, Rounding::rn>(type, ftz, sat);
  }
}

bool is_half(Type type) {
  return type == Type::f16 || type == Type::f16x2 || type == Type::bf16 || type == Type::bf16x2;
}

/// Sends a shared opcode to the binder of its type; modifiers that the type lacks are refused.
void refuse(Decode& d, std::initializer_list<std::string_view> modifiers) {
  const std::string_view found = d.one_of(modifiers);
  if (!found.empty())
    d.unsupported("modifier '." + std::string(found) + "' of '" + std::string(d.out.opcode) +
                  "' does not exist for type ." + std::string(ir::to_string(d.type())));
}
template <Operation kOperation, void (*kInteger)(Decode&)>
void bind_shared(Decode& d) {
  const Type type = d.type();
  if (ir::is_float(type)) {
    refuse(d, {"lo", "hi", "wide", "cc"});
    if (is_half(type)) return bind_half_arithmetic(d, static_cast<HalfOperation>(kOperation));
    return bind_arithmetic<kOperation>(d);
  }
  refuse(d, {"rn", "rz", "rm", "rp", "ftz", "relu", "oob"});
  kInteger(d);
}

template <Rounding kRounding, bool kFlush>
struct DivRounded {
  float operator()(float a, float b) const {
    return canonical(flush<kFlush>(numeric::div(flush<kFlush>(a), flush<kFlush>(b), kRounding)));
  }
};
template <Rounding kRounding>
struct DivRounded64 {
  double operator()(double a, double b) const { return canonical(numeric::div(a, b, kRounding)); }
};
template <bool kFull, bool kFlush>
struct DivApprox {
  float operator()(float a, float b) const {
    return canonical(kFull ? numeric::div_full(a, b, kFlush) : numeric::div_approx(a, b, kFlush));
  }
};
template <Rounding kRounding>
Handler div_for(Type type, bool ftz) {
  if (type == Type::f64)
    return binary<Cost::costly, double, double, double, DivRounded64<kRounding>>;
  return ftz ? binary<Cost::costly, float, float, float, DivRounded<kRounding, true>>
             : binary<Cost::costly, float, float, float, DivRounded<kRounding, false>>;
}
void bind_div(Decode& d) {
  const Type type = d.type();
  if (!ir::is_float(type)) {
    refuse(d, {"rn", "rz", "rm", "rp", "ftz", "approx", "full"});
    return bind_integer_div(d);
  }
  d.plain_operands(type, {type, type});
  const bool ftz = d.has("ftz");
  const bool approximate = d.has("approx") || d.has("full");
  if (approximate) {
    if (type != Type::f32) return;
    if (d.has("full")) {
      d.out.handler = ftz ? binary<Cost::costly, float, float, float, DivApprox<true, true>>
                          : binary<Cost::costly, float, float, float, DivApprox<true, false>>;
    } else {
      d.out.handler = ftz ? binary<Cost::costly, float, float, float, DivApprox<false, true>>
                          : binary<Cost::costly, float, float, float, DivApprox<false, false>>;
    }
  } else {
    d.out.handler = d.has("rz")   ? div_for<Rounding::rz>(type, ftz)
                    : d.has("rm") ? div_for<Rounding::rm>(type, ftz)
                    : d.has("rp") ? div_for<Rounding::rp>(type, ftz)
                                  : div_for<Rounding::rn>(type, ftz);
  }
}

template <bool kFlush, bool kNegate>
struct Sign32 {
  float operator()(float a) const {
    a = flush<kFlush>(a);
    return std::bit_cast<float>(kNegate ? std::bit_cast<U32>(a) ^ 0x80000000u
                                        : std::bit_cast<U32>(a) & 0x7fffffffu);
  }
};
template <bool kNegate>
struct Sign64 {
  U64 operator()(U64 a) const {
    return kNegate ? a ^ U64 { 1 } << 63 : a & ~(U64{1} << 63);
  }
};
template <bool kNegate>
void bind_sign(Decode& d) {
  const Type type = d.type();
  if (!ir::is_float(type)) {
    refuse(d, {"ftz"});
    return kNegate ? bind_integer_neg(d) : bind_integer_abs(d);
  }
  if (is_half(type)) return bind_half_sign(d, kNegate);
  d.plain_operands(type, {type});
  if (type == Type::f32) {
    d.out.handler = d.has("ftz") ? unary<Cost::cheap, float, float, Sign32<true, kNegate>>
                                 : unary<Cost::cheap, float, float, Sign32<false, kNegate>>;
  } else if (type == Type::f64) {
    d.out.handler = unary<Cost::cheap, U64, U64, Sign64<kNegate>>;
  }
}

template <bool kMaximum, bool kNan, bool kFlush, bool kXorSign>
struct MinMax32 {
  float operator()(float a, float b) const {
    a = flush<kFlush>(a);
    b = flush<kFlush>(b);
    if constexpr (kXorSign) {
      const U32 sign = (std::bit_cast<U32>(a) ^ std::bit_cast<U32>(b)) & 0x80000000u;
      const float r = min_max<kMaximum, kNan>(std::fabs(a), std::fabs(b));
      return std::bit_cast<float>((std::bit_cast<U32>(r) & 0x7fffffffu) | sign);
    }
    return min_max<kMaximum, kNan>(a, b);
  }
};
template <bool kMaximum>
struct MinMax64 {
  double operator()(double a, double b) const { return min_max<kMaximum, false>(a, b); }
};
template <bool kMaximum, bool kNan, bool kFlush>
Handler min_max_with(bool xor_sign) {
  return xor_sign
             ? binary<Cost::cheap, float, float, float, MinMax32<kMaximum, kNan, kFlush, true>>
             : binary<Cost::cheap, float, float, float, MinMax32<kMaximum, kNan, kFlush, false>>;
}
template <bool kMaximum>
void bind_min_max(Decode& d) {
  const Type type = d.type();
  if (!ir::is_float(type)) {
    refuse(d, {"ftz", "NaN", "xorsign", "abs"});
    return bind_integer_min_max(d, kMaximum);
  }
  if (is_half(type)) return bind_half_min_max(d, kMaximum);
  refuse(d, {"relu"});
  d.plain_operands(type, {type, type});
  const bool xor_sign = d.has("xorsign");
  if (type == Type::f64 && !d.has("NaN") && !d.has("ftz") && !xor_sign) {
    d.out.handler = binary<Cost::cheap, double, double, double, MinMax64<kMaximum>>;
  } else if (type == Type::f32) {
    if (d.has("NaN")) {
      d.out.handler = d.has("ftz") ? min_max_with<kMaximum, true, true>(xor_sign)
                                   : min_max_with<kMaximum, true, false>(xor_sign);
    } else {
      d.out.handler = d.has("ftz") ? min_max_with<kMaximum, false, true>(xor_sign)
                                   : min_max_with<kMaximum, false, false>(xor_sign);
    }
  }
}

// Functions of one value.
template <float (*kFunction)(float, bool), bool kFlush>
struct Approx {
  float operator()(float a) const { return canonical(kFunction(a, kFlush)); }
};
template <float (*kFunction)(float, bool)>
Handler approx_for(bool ftz) {
  return ftz ? unary<Cost::costly, float, float, Approx<kFunction, true>>
             : unary<Cost::costly, float, float, Approx<kFunction, false>>;
}
template <float (*kFunction)(float, bool)>
void bind_approx(Decode& d) {
  d.plain_operands(Type::f32, {Type::f32});
  d.out.handler = approx_for<kFunction>(d.has("ftz"));
}
void bind_ex2(Decode& d) {
  if (is_half(d.type())) return bind_half_function(d, HalfFunction::ex2);
  bind_approx<numeric::ex2_approx>(d);
}
struct Tanh {
  float operator()(float a) const { return canonical(numeric::tanh_approx(a)); }
};
void bind_tanh(Decode& d) {
  if (is_half(d.type())) return bind_half_function(d, HalfFunction::tanh);
  d.plain_operands(Type::f32, {Type::f32});
  d.out.handler = unary<Cost::costly, float, float, Tanh>;
}

template <Rounding kRounding, bool kFlush>
struct Reciprocal {
  float operator()(float a) const {
    return canonical(flush<kFlush>(numeric::div(1.0F, flush<kFlush>(a), kRounding)));
  }
};
template <Rounding kRounding>
struct Reciprocal64 {
  double operator()(double a) const { return canonical(numeric::div(1.0, a, kRounding)); }
};
template <Rounding kRounding, bool kFlush>
struct SquareRoot {
  float operator()(float a) const {
    return canonical(flush<kFlush>(numeric::sqrt(flush<kFlush>(a), kRounding)));
  }
};
template <Rounding kRounding>
struct SquareRoot64 {
  double operator()(double a) const { return canonical(numeric::sqrt(a, kRounding)); }
};
struct RcpApprox64 {
  double operator()(double a) const { return numeric::rcp_approx_f64(a); }
};
struct RsqrtApprox64 {
  double operator()(double a) const { return numeric::rsqrt_approx_f64(a); }
};

template <template <Rounding, bool> class F, Rounding kRounding>
Handler rounded32(bool ftz) {
  return ftz ? unary<Cost::costly, float, float, F<kRounding, true>>
             : unary<Cost::costly, float, float, F<kRounding, false>>;
}
template <template <Rounding, bool> class F, template <Rounding> class G>
Handler rounded_for(Decode& d, Type type) {
  const bool ftz = d.has("ftz");
  const bool wide = type == Type::f64;
  if (d.has("rz"))
    return wide ? unary<Cost::costly, double, double, G<Rounding::rz>>
                : rounded32<F, Rounding::rz>(ftz);
  if (d.has("rm"))
    return wide ? unary<Cost::costly, double, double, G<Rounding::rm>>
                : rounded32<F, Rounding::rm>(ftz);
  if (d.has("rp"))
    return wide ? unary<Cost::costly, double, double, G<Rounding::rp>>
                : rounded32<F, Rounding::rp>(ftz);
  return wide ? unary<Cost::costly, double, double, G<Rounding::rn>>
              : rounded32<F, Rounding::rn>(ftz);
}
void bind_rcp(Decode& d) {
  const Type type = d.type();
  d.plain_operands(type, {type});
  if (!d.has("approx")) {
    d.out.handler = rounded_for<Reciprocal, Reciprocal64>(d, type);
  } else {
    d.out.handler = type == Type::f64 ? unary<Cost::costly, double, double, RcpApprox64>
                                      : approx_for<numeric::rcp_approx>(d.has("ftz"));
  }
}
void bind_sqrt(Decode& d) {
  const Type type = d.type();
  d.plain_operands(type, {type});
  if (!d.has("approx")) {
    d.out.handler = rounded_for<SquareRoot, SquareRoot64>(d, type);
  } else if (type == Type::f32) {
    d.out.handler = approx_for<numeric::sqrt_approx>(d.has("ftz"));
  }
}
void bind_rsqrt(Decode& d) {
  const Type type = d.type();
  d.plain_operands(type, {type});
  d.out.handler = type == Type::f64 ? unary<Cost::costly, double, double, RsqrtApprox64>
                                    : approx_for<numeric::rsqrt_approx>(d.has("ftz"));
}

template <typename T>
struct CopySign {
  T operator()(T a, T b) const { return std::copysign(b, a); }
};
void bind_copysign(Decode& d) {
  d.plain_operands(d.type(), {d.type(), d.type()});
  d.out.handler = d.type() == Type::f64
                      ? binary<Cost::cheap, double, double, double, CopySign<double>>
                      : binary<Cost::cheap, float, float, float, CopySign<float>>;
}

enum class Test : std::uint32_t { finite, infinite, number, notanumber, normal, subnormal };
template <typename T>
Action test_property(Context& c, const Instruction& in, LaneMask lanes) {
  const auto* a = c.row<const SlotOf<T>>(in.a);
  LaneMask result = 0;
  for (int l = 0; l < kWarpSize; ++l) {
    const T value = from_slot<T>(a[l]);
    bool holds = false;
    switch (static_cast<Test>(in.flags)) {
      case Test::finite:
        holds = std::isfinite(value);
        break;
      case Test::infinite:
        holds = std::isinf(value);
        break;
      case Test::number:
        holds = !std::isnan(value);
        break;
      case Test::notanumber:
        holds = std::isnan(value);
        break;
      case Test::normal:
        holds = std::isnormal(value) || value == 0;
        break;
      case Test::subnormal:
        holds = std::fpclassify(value) == FP_SUBNORMAL;
        break;
    }
    result |= static_cast<LaneMask>(holds) << l;
  }
  c.set_predicate(in.d, lanes, result);
  return Action::next;
}
void bind_testp(Decode& d) {
  d.require_operands(2, 2);
  d.out.type = Type::pred;
  d.out.source_type = d.type();
  d.out.d = d.destination(0, Type::pred);
  d.out.a = d.source(1, d.type());
  static constexpr std::string_view kTests[] = {"finite",     "infinite", "number",
                                                "notanumber", "normal",   "subnormal"};
  for (std::uint32_t i = 0; i < 6; ++i) {
    if (d.has(kTests[i])) d.out.flags = i;
  }
  d.out.handler = d.type() == Type::f64 ? test_property<double> : test_property<float>;
}

constexpr ir::OpcodeRow kRows[] = {
    {"add", "[@rounding] [ftz] [sat] @int|u16x2|s16x2|f32|f32x2|f64|@half",
     bind_shared<Operation::add, bind_integer_add>},
    {"sub", "[@rounding] [ftz] [sat] @int|u16x2|s16x2|f32|f32x2|f64|@half",
     bind_shared<Operation::sub, bind_integer_sub>},
    {"mul", "[lo|hi|wide] [@rounding] [ftz] [sat] @int|f32|f32x2|f64|@half",
     bind_shared<Operation::mul, bind_integer_mul>},
    {"fma", "@rounding [ftz] [sat] [relu] [oob] f32|f32x2|f64|@half",
     bind_shared<Operation::fma, bind_integer_mad>},
    {"mad", "[lo|hi|wide] [@rounding] [ftz] [sat] @int|f32|f64",
     bind_shared<Operation::fma, bind_integer_mad>},
    {"div", "[approx|full|@rounding] [ftz] @int|f32|f64", bind_div},
    {"abs", "[ftz] s16|s32|s64|f32|f64|@half", bind_sign<false>},
    {"neg", "[ftz] s16|s32|s64|f32|f64|@half", bind_sign<true>},
    {"min", "[ftz] [NaN] [xorsign] [abs] [relu] @int|u16x2|s16x2|f32|f64|@half",
     bind_min_max<false>},
    {"max", "[ftz] [NaN] [xorsign] [abs] [relu] @int|u16x2|s16x2|f32|f64|@half",
     bind_min_max<true>},
    {"rcp", "approx|@rounding [ftz] f32|f64", bind_rcp},
    {"sqrt", "approx|@rounding [ftz] f32|f64", bind_sqrt},
    {"rsqrt", "approx [ftz] f32|f64", bind_rsqrt},
    {"sin", "approx [ftz] f32", bind_approx<numeric::sin_approx>},
    {"cos", "approx [ftz] f32", bind_approx<numeric::cos_approx>},
    {"lg2", "approx [ftz] f32", bind_approx<numeric::lg2_approx>},
    {"ex2", "approx [ftz] f32|@half", bind_ex2},
    {"tanh", "approx f32|@half", bind_tanh},
    {"copysign", "f32|f64", bind_copysign},
    {"testp", "finite|infinite|number|notanumber|normal|subnormal f32|f64", bind_testp},
};

}  // namespace

std::span<const ir::OpcodeRow> float_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec
