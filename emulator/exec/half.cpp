// f16, bf16 and their packed pairs.
#include "exec/half.hpp"

#include "exec/float_values.hpp"
#include "exec/lanes.hpp"
#include "numeric/arithmetic.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Handler;
using ir::Type;
using numeric::Format;
using U16 = std::uint16_t;
using U32 = std::uint32_t;

bool is_packed(Type type) {
  return type == Type::f16x2 || type == Type::bf16x2;
}
bool is_bfloat(Type type) {
  return type == Type::bf16 || type == Type::bf16x2;
}

/// F works on one 16-bit value; packed registers get it twice.
template <typename F>
struct Packed {
  U32 operator()(U32 a) const { return F{}(U16(a)) | U32{F{}(U16(a >> 16))} << 16; }
  U32 operator()(U32 a, U32 b) const {
    return F{}(U16(a), U16(b)) | U32{F{}(U16(a >> 16), U16(b >> 16))} << 16;
  }
  U32 operator()(U32 a, U32 b, U32 c) const {
    return F{}(U16(a), U16(b), U16(c)) | U32{F{}(U16(a >> 16), U16(b >> 16), U16(c >> 16))} << 16;
  }
};

constexpr unsigned kFlushBit = 1, kSaturateBit = 2, kReluBit = 4, kOobBit = 8;
/// The NaN with which tensor copies fill what lies outside a tensor; `.oob` turns it into a zero
/// result.
constexpr U16 kOutOfBoundsNan = 0x7ff7;

template <Format kFormat, HalfOperation kOperation, unsigned kBits>
struct Arithmetic {
  U16 operator()(U16 a, U16 b, U16 c) const {
    constexpr numeric::HalfOptions kOptions{(kBits & kFlushBit) != 0, (kBits & kSaturateBit) != 0,
                                            (kBits & kReluBit) != 0};
    if ((kBits & kOobBit) != 0 &&
        (a == kOutOfBoundsNan || b == kOutOfBoundsNan || c == kOutOfBoundsNan))
      return 0;
    switch (kOperation) {
      case HalfOperation::add:
        return numeric::half_add(kFormat, a, b, kOptions);
      case HalfOperation::sub:
        return numeric::half_sub(kFormat, a, b, kOptions);
      case HalfOperation::mul:
        return numeric::half_mul(kFormat, a, b, kOptions);
      case HalfOperation::fma:
        return numeric::half_fma(kFormat, a, b, c, kOptions);
    }
  }
};

template <Format kFormat, HalfOperation kOperation, unsigned kBits>
Handler arithmetic_handler(bool packed) {
  using F = Arithmetic<kFormat, kOperation, kBits>;
  return packed ? ternary<Cost::costly, U32, U32, U32, U32, Packed<F>>
                : ternary<Cost::costly, U16, U16, U16, U16, F>;
}
template <Format kFormat, HalfOperation kOperation>
Handler arithmetic_for(bool packed, unsigned bits) {
  switch (bits) {
    case 0:
      return arithmetic_handler<kFormat, kOperation, 0>(packed);
    case kFlushBit:
      return arithmetic_handler<kFormat, kOperation, kFlushBit>(packed);
    case kSaturateBit:
      return arithmetic_handler<kFormat, kOperation, kSaturateBit>(packed);
    case kFlushBit | kSaturateBit:
      return arithmetic_handler<kFormat, kOperation, kFlushBit | kSaturateBit>(packed);
    case kReluBit:
      return arithmetic_handler<kFormat, kOperation, kReluBit>(packed);
    case kFlushBit | kReluBit:
      return arithmetic_handler<kFormat, kOperation, kFlushBit | kReluBit>(packed);
    case kOobBit:
      return arithmetic_handler<kFormat, kOperation, kOobBit>(packed);
    case kOobBit | kReluBit:
      return arithmetic_handler<kFormat, kOperation, kOobBit | kReluBit>(packed);
    default:
      return nullptr;
  }
}
template <Format kFormat>
Handler operation_for(HalfOperation operation, bool packed, unsigned bits) {
  switch (operation) {
    case HalfOperation::add:
      return arithmetic_for<kFormat, HalfOperation::add>(packed, bits);
    case HalfOperation::sub:
      return arithmetic_for<kFormat, HalfOperation::sub>(packed, bits);
    case HalfOperation::mul:
      return arithmetic_for<kFormat, HalfOperation::mul>(packed, bits);
    case HalfOperation::fma:
      return arithmetic_for<kFormat, HalfOperation::fma>(packed, bits);
  }
  return nullptr;
}

/// Sign handling on the bits. Bit 15 of each half.
template <bool kNegate, bool kFlush>
struct Sign {
  U16 operator()(U16 a) const {
    if (kFlush && (a & 0x7c00) == 0) a &= 0x8000;
    return static_cast<U16>(kNegate ? a ^ 0x8000 : a & 0x7fff);
  }
};

template <Format kFormat>
float widen(U16 bits) {
  return kFormat == Format::f16 ? numeric::f16_to_f32(bits) : numeric::bf16_to_f32(bits);
}

template <Format kFormat, bool kMaximum, bool kNan, bool kFlush, bool kXorSign>
struct MinMax {
  U16 operator()(U16 a, U16 b) const {
    if (kFlush) {
      if ((a & 0x7c00) == 0) a &= 0x8000;
      if ((b & 0x7c00) == 0) b &= 0x8000;
    }
    U16 sign = 0;
    if (kXorSign) {
      sign = (a ^ b) & 0x8000;
      a &= 0x7fff;
      b &= 0x7fff;
    }
    const float x = widen<kFormat>(a);
    const float y = widen<kFormat>(b);
    const bool any_nan = x != x || y != y;
    if (any_nan && (kNan || (x != x && y != y))) return 0x7fff;
    U16 result = 0;
    if (any_nan) {
      result = x != x ? b : a;
    } else if (x == y) {
      result = ((a & 0x8000) != 0) == kMaximum ? b : a;
    } else {
      result = (x > y) == kMaximum ? a : b;
    }
    return kXorSign ? static_cast<U16>((result & 0x7fff) | sign) : result;
  }
};
template <Format kFormat, bool kMaximum, bool kNan, bool kFlush, bool kXorSign>
Handler min_max_handler(bool packed) {
  using F = MinMax<kFormat, kMaximum, kNan, kFlush, kXorSign>;
  return packed ? binary<Cost::costly, U32, U32, U32, Packed<F>>
                : binary<Cost::costly, U16, U16, U16, F>;
}
template <Format kFormat, bool kMaximum, bool kNan>
Handler min_max_for(bool packed, bool flush, bool xor_sign) {
  if (xor_sign)
    return flush ? min_max_handler<kFormat, kMaximum, kNan, true, true>(packed)
                 : min_max_handler<kFormat, kMaximum, kNan, false, true>(packed);
  return flush ? min_max_handler<kFormat, kMaximum, kNan, true, false>(packed)
               : min_max_handler<kFormat, kMaximum, kNan, false, false>(packed);
}

template <Format kFormat, HalfFunction kFunction, bool kFlush>
struct Function {
  U16 operator()(U16 a) const {
    return kFunction == HalfFunction::ex2 ? numeric::half_ex2(kFormat, a, kFlush)
                                          : numeric::half_tanh(kFormat, a);
  }
};
template <Format kFormat, HalfFunction kFunction, bool kFlush>
Handler function_handler(bool packed) {
  using F = Function<kFormat, kFunction, kFlush>;
  return packed ? unary<Cost::costly, U32, U32, Packed<F>> : unary<Cost::costly, U16, U16, F>;
}

}  // namespace

void bind_half_arithmetic(Decode& d, HalfOperation operation) {
  const Type type = d.type();
  const bool three = operation == HalfOperation::fma;
  d.require_operands(three ? 4 : 3, three ? 4 : 3);
  d.out.type = type;
  d.out.d = d.destination(0, type);
  d.out.a = d.source(1, type);
  d.out.b = d.source(2, type);
  d.out.c = three ? d.source(3, type) : d.out.b;
  if (d.has("rz") || d.has("rm") || d.has("rp")) return;
  const unsigned bits = (d.has("ftz") ? kFlushBit : 0) | (d.has("sat") ? kSaturateBit : 0) |
                        (d.has("relu") ? kReluBit : 0) | (d.has("oob") ? kOobBit : 0);
  if (is_bfloat(type)) {
    if ((bits & ~(kReluBit | kOobBit)) != 0) return;  // no .ftz and no .sat
    d.out.handler = operation_for<Format::bf16>(operation, is_packed(type), bits);
  } else {
    d.out.handler = operation_for<Format::f16>(operation, is_packed(type), bits);
  }
}

void bind_half_sign(Decode& d, bool negate) {
  const Type type = d.type();
  d.plain_operands(type, {type});
  const bool packed = is_packed(type);
  const bool flush = d.has("ftz");
  if (flush && is_bfloat(type)) return;
  if (negate) {
    if (packed) {
      d.out.handler = flush ? unary<Cost::cheap, U32, U32, Packed<Sign<true, true>>>
                            : unary<Cost::cheap, U32, U32, Packed<Sign<true, false>>>;
    } else {
      d.out.handler = flush ? unary<Cost::cheap, U16, U16, Sign<true, true>>
                            : unary<Cost::cheap, U16, U16, Sign<true, false>>;
    }
  } else if (packed) {
    d.out.handler = flush ? unary<Cost::cheap, U32, U32, Packed<Sign<false, true>>>
                          : unary<Cost::cheap, U32, U32, Packed<Sign<false, false>>>;
  } else {
    d.out.handler = flush ? unary<Cost::cheap, U16, U16, Sign<false, true>>
                          : unary<Cost::cheap, U16, U16, Sign<false, false>>;
  }
}

void bind_half_min_max(Decode& d, bool maximum) {
  const Type type = d.type();
  d.plain_operands(type, {type, type});
  const bool packed = is_packed(type);
  const bool flush = d.has("ftz");
  const bool nan = d.has("NaN");
  const bool xor_sign = d.has("xorsign");
  if (d.has("relu") || (flush && is_bfloat(type))) return;
  if (is_bfloat(type)) {
    if (maximum) {
      d.out.handler = nan ? min_max_for<Format::bf16, true, true>(packed, false, xor_sign)
                          : min_max_for<Format::bf16, true, false>(packed, false, xor_sign);
    } else {
      d.out.handler = nan ? min_max_for<Format::bf16, false, true>(packed, false, xor_sign)
                          : min_max_for<Format::bf16, false, false>(packed, false, xor_sign);
    }
  } else if (maximum) {
    d.out.handler = nan ? min_max_for<Format::f16, true, true>(packed, flush, xor_sign)
                        : min_max_for<Format::f16, true, false>(packed, flush, xor_sign);
  } else {
    d.out.handler = nan ? min_max_for<Format::f16, false, true>(packed, flush, xor_sign)
                        : min_max_for<Format::f16, false, false>(packed, flush, xor_sign);
  }
}

void bind_half_function(Decode& d, HalfFunction function) {
  const Type type = d.type();
  d.plain_operands(type, {type});
  const bool packed = is_packed(type);
  if (function == HalfFunction::tanh) {
    d.out.handler = is_bfloat(type)
                        ? function_handler<Format::bf16, HalfFunction::tanh, false>(packed)
                        : function_handler<Format::f16, HalfFunction::tanh, false>(packed);
  } else if (is_bfloat(type)) {
    d.out.handler = function_handler<Format::bf16, HalfFunction::ex2, true>(packed);
  } else {
    d.out.handler = d.has("ftz") ? function_handler<Format::f16, HalfFunction::ex2, true>(packed)
                                 : function_handler<Format::f16, HalfFunction::ex2, false>(packed);
  }
}

}  // namespace ptxemu::exec
