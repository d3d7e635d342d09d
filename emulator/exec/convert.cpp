// cvt between integers, floating point and the narrow packed formats.
#include "numeric/convert.hpp"

#include <algorithm>
#include <limits>

#include "exec/float_values.hpp"
#include "exec/lanes.hpp"
#include "exec/opcodes.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Type;
using numeric::Format;
using numeric::Rounding;
using U16 = std::uint16_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;
using S64 = std::int64_t;

// flags: bits 0-2 rounding, then modifiers.
constexpr U32 kRoundingMask = 7, kIntegral = 8, kSat = 16, kFtz = 32, kRelu = 64, kSatFinite = 128,
              kHasRounding = 256;

Rounding rounding_of(const Instruction& in) {
  return static_cast<Rounding>(in.flags & kRoundingMask);
}

U64 read_slot(const Context& c, const Operand& operand, int lane) {
  return operand.width == ir::Width::bits64 ? c.row<const U64>(operand)[lane]
                                            : c.row<const U32>(operand)[lane];
}
void write_slot(const Context& c, const Operand& operand, int lane, U64 value) {
  if (operand.width == ir::Width::bits64) {
    c.row<U64>(operand)[lane] = value;
  } else {
    c.row<U32>(operand)[lane] = static_cast<U32>(value);
  }
}

/// The low bits of a slot as an integer of `type`, extended to 64 bits.
U64 extend(U64 bits, Type type) {
  const int size = ir::bit_size(type);
  if (size == 64) return bits;
  const int shift = 64 - size;
  return ir::is_signed(type) ? static_cast<U64>(static_cast<S64>(bits << shift) >> shift)
                             : bits << shift >> shift;
}

Format format_of(Type type) {
  switch (type) {
    case Type::f16:
    case Type::f16x2:
      return Format::f16;
    case Type::bf16:
    case Type::bf16x2:
      return Format::bf16;
    case Type::f64:
      return Format::f64;
    case Type::tf32:
      return Format::tf32;
    case Type::e4m3x2:
      return Format::e4m3;
    case Type::e5m2x2:
      return Format::e5m2;
    default:
      return Format::f32;
  }
}

double load_float(U64 bits, Type type, bool ftz) {
  switch (type) {
    case Type::f64:
      return std::bit_cast<double>(bits);
    case Type::f32: {
      const float value = std::bit_cast<float>(static_cast<U32>(bits));
      return ftz ? flush<true>(value) : value;
    }
    case Type::f16:
      return numeric::f16_to_f32(static_cast<U16>(bits));
    default:
      return numeric::bf16_to_f32(static_cast<U16>(bits));
  }
}

U64 store_float(double value, Type type, U32 flags) {
  const auto rounding = static_cast<Rounding>(flags & kRoundingMask);
  if (type == Type::f64) {
    if ((flags & kSat) != 0) value = saturate(value);
    return std::bit_cast<U64>(canonical(value));
  }
  if (type == Type::f32) {
    float result = numeric::narrow(value, rounding);
    if ((flags & kFtz) != 0) result = flush<true>(result);
    if ((flags & kSat) != 0) result = saturate(result);
    return std::bit_cast<U32>(canonical(result));
  }
  numeric::EncodeOptions options;
  options.rounding = rounding;
  options.satfinite = (flags & kSatFinite) != 0;
  options.relu = (flags & kRelu) != 0;
  options.saturate_to_one = (flags & kSat) != 0;
  return numeric::encode(format_of(type), value, options);
}

// Integer to integer. Fast path: templates by source; the destination is a 32- or 64-bit slot.
template <typename S, typename D>
struct Resize {
  D operator()(S a) const { return static_cast<D>(a); }
};
/// The source value sits in the low bits of a wider register.
template <typename S, typename D>
struct ResizeWide {
  D operator()(U64 a) const { return static_cast<D>(static_cast<S>(a)); }
};

Action integer_saturating(Context& c, const Instruction& in, LaneMask lanes) {
  const int size = ir::bit_size(in.type);
  const bool to_signed = ir::is_signed(in.type);
  const bool from_signed = ir::is_signed(in.source_type);
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const U64 value = extend(read_slot(c, in.a, l), in.source_type);
    const bool negative = from_signed && static_cast<S64>(value) < 0;
    U64 result = value;
    const U64 most = to_signed    ? (U64{1} << (size - 1)) - 1
                     : size == 64 ? ~U64{0}
                                  : (U64{1} << size) - 1;
    if (negative) {
      const S64 least = to_signed ? -static_cast<S64>((U64{1} << (size - 1)) - 1) - 1 : 0;
      if (static_cast<S64>(value) < least) result = static_cast<U64>(least);
    } else if (value > most) {
      result = most;
    }
    write_slot(c, in.d, l, extend(result, in.type));
  }
  return Action::next;
}

Action integer_to_float(Context& c, const Instruction& in, LaneMask lanes) {
  const bool is_signed = ir::is_signed(in.source_type);
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const U64 value = extend(read_slot(c, in.a, l), in.source_type);
    U64 result = 0;
    switch (in.type) {
      case Type::f32: {
        float f = numeric::integer_to_f32(value, is_signed, rounding_of(in));
        if ((in.flags & kSat) != 0) f = saturate(f);
        result = std::bit_cast<U32>(f);
        break;
      }
      case Type::f64: {
        double f = numeric::integer_to_f64(value, is_signed, rounding_of(in));
        if ((in.flags & kSat) != 0) f = saturate(f);
        result = std::bit_cast<U64>(f);
        break;
      }
      default:
        result = numeric::integer_to_16bit(format_of(in.type), value, is_signed, rounding_of(in));
    }
    write_slot(c, in.d, l, result);
  }
  return Action::next;
}

Action float_to_integer(Context& c, const Instruction& in, LaneMask lanes) {
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const double value = load_float(read_slot(c, in.a, l), in.source_type, (in.flags & kFtz) != 0);
    const U64 result =
        numeric::to_integer(value, rounding_of(in), static_cast<unsigned>(ir::bit_size(in.type)),
                            ir::is_signed(in.type), in.source_type == Type::f64);
    write_slot(c, in.d, l, extend(result, in.type));
  }
  return Action::next;
}

Action float_to_float(Context& c, const Instruction& in, LaneMask lanes) {
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    double value = load_float(read_slot(c, in.a, l), in.source_type, (in.flags & kFtz) != 0);
    U32 flags = in.flags;
    if ((flags & kIntegral) != 0) value = numeric::round_to_integral(value, rounding_of(in));
    write_slot(c, in.d, l, store_float(value, in.type, flags));
  }
  return Action::next;
}

// The conversions that kernels spend their time in.
struct HalfToFloat {
  float operator()(U16 a) const { return numeric::f16_to_f32(a); }
};
struct BFloatToFloat {
  float operator()(U16 a) const { return numeric::bf16_to_f32(a); }
};
struct FloatToHalf {
  U16 operator()(float a) const { return numeric::f32_to_f16(a); }
};
struct FloatToBFloat {
  U16 operator()(float a) const { return numeric::f32_to_bf16(a); }
};
struct PairToHalf {
  U32 operator()(float high, float low) const {
    return numeric::f32_to_f16(low) | U32{numeric::f32_to_f16(high)} << 16;
  }
};
struct PairToBFloat {
  U32 operator()(float high, float low) const {
    return numeric::f32_to_bf16(low) | U32{numeric::f32_to_bf16(high)} << 16;
  }
};

/// cvt.<packed>.f32 d, high, low.
Action pack_floats(Context& c, const Instruction& in, LaneMask lanes) {
  const auto* high = c.row<const U32>(in.a);
  const auto* low = c.row<const U32>(in.b);
  auto* out = c.row<U32>(in.d);
  numeric::EncodeOptions options;
  options.rounding = rounding_of(in);
  options.satfinite = (in.flags & kSatFinite) != 0;
  options.relu = (in.flags & kRelu) != 0;
  const Format format = format_of(in.type);
  const int bits = ir::bit_size(in.type) / 2;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    out[l] = numeric::encode(format, std::bit_cast<float>(low[l]), options) |
             numeric::encode(format, std::bit_cast<float>(high[l]), options) << bits;
  }
  return Action::next;
}

/// Between packed formats: f16x2 <-> e4m3x2, e5m2x2.
Action repack(Context& c, const Instruction& in, LaneMask lanes) {
  const auto* from = c.row<const U32>(in.a);
  auto* out = c.row<U32>(in.d);
  numeric::EncodeOptions options;
  options.rounding = rounding_of(in);
  options.satfinite = (in.flags & kSatFinite) != 0;
  options.relu = (in.flags & kRelu) != 0;
  const int in_bits = ir::bit_size(in.source_type) / 2;
  const int out_bits = ir::bit_size(in.type) / 2;
  const U32 mask = (1u << in_bits) - 1;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const double low = numeric::decode(format_of(in.source_type), from[l] & mask);
    const double high = numeric::decode(format_of(in.source_type), from[l] >> in_bits & mask);
    out[l] = numeric::encode(format_of(in.type), low, options) |
             numeric::encode(format_of(in.type), high, options) << out_bits;
  }
  return Action::next;
}

/// cvt.pack: a and b clamped to 16 or 8 bits, in the low half of the result; above them c, shifted.
Action pack_integers(Context& c, const Instruction& in, LaneMask lanes) {
  const int size = ir::bit_size(in.type);
  const bool is_signed = ir::is_signed(in.type);
  const S64 least = is_signed ? -(S64{1} << (size - 1)) : 0;
  const S64 most = is_signed ? (S64{1} << (size - 1)) - 1 : (S64{1} << size) - 1;
  const auto* a = c.row<const std::int32_t>(in.a);
  const auto* b = c.row<const std::int32_t>(in.b);
  const auto* above = c.row<const U32>(in.c);
  auto* out = c.row<U32>(in.d);
  const U32 mask = (1u << size) - 1;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const auto part = [&](S64 value) {
      return static_cast<U32>(std::clamp(value, least, most)) & mask;
    };
    const U32 upper = size == 8 ? above[l] << 16 : 0;
    out[l] = upper | part(a[l]) << size | part(b[l]);
  }
  return Action::next;
}
void bind_pack(Decode& d) {
  const Type type = d.type(0);
  const bool bytes = ir::bit_size(type) == 8;
  if (d.type(1) != Type::s32) d.unsupported("cvt.pack converts from .s32");
  d.require_operands(bytes ? 4 : 3, bytes ? 4 : 3);
  d.out.type = type;
  d.out.source_type = Type::s32;
  d.out.d = d.destination(0, Type::b32);
  d.out.a = d.source(1, Type::s32);
  d.out.b = d.source(2, Type::s32);
  d.out.c = bytes ? d.source(3, Type::b32) : d.out.b;
  d.out.handler = pack_integers;
}

template <typename S>
ir::Handler resize_from(Type to, bool wide_source) {
  const bool to_wide = ir::bit_size(to) == 64;
  // Sub-word destinations are stored extended, so that a wider register holds the value.
  switch (to) {
    case Type::u8:
      return wide_source ? unary<Cost::cheap, U32, U64, ResizeWide<S, std::uint8_t>>
                         : unary<Cost::cheap, U32, S, Resize<S, std::uint8_t>>;
    case Type::s8:
      return wide_source ? unary<Cost::cheap, std::int32_t, U64, ResizeWide<S, std::int8_t>>
                         : unary<Cost::cheap, std::int32_t, S, Resize<S, std::int8_t>>;
    case Type::u16:
      return wide_source ? unary<Cost::cheap, U32, U64, ResizeWide<S, U16>>
                         : unary<Cost::cheap, U32, S, Resize<S, U16>>;
    case Type::s16:
      return wide_source ? unary<Cost::cheap, std::int32_t, U64, ResizeWide<S, std::int16_t>>
                         : unary<Cost::cheap, std::int32_t, S, Resize<S, std::int16_t>>;
    default:
      break;
  }
  if (to_wide)
    return wide_source ? unary<Cost::cheap, U64, U64, ResizeWide<S, U64>>
                       : unary<Cost::cheap, U64, S, Resize<S, U64>>;
  return wide_source ? unary<Cost::cheap, U32, U64, ResizeWide<S, U32>>
                     : unary<Cost::cheap, U32, S, Resize<S, U32>>;
}
ir::Handler resize(Type from, Type to, bool wide_source) {
  switch (from) {
    case Type::u8:
      return resize_from<std::uint8_t>(to, wide_source);
    case Type::s8:
      return resize_from<std::int8_t>(to, wide_source);
    case Type::u16:
      return resize_from<U16>(to, wide_source);
    case Type::s16:
      return resize_from<std::int16_t>(to, wide_source);
    case Type::u32:
      return resize_from<U32>(to, wide_source);
    case Type::s32:
      return resize_from<std::int32_t>(to, wide_source);
    case Type::u64:
      return resize_from<U64>(to, false);
    case Type::s64:
      return resize_from<S64>(to, false);
    default:
      return nullptr;
  }
}

/// Destination register wider than the type: the general handlers extend, the fast ones do not.
Action integer_general(Context& c, const Instruction& in, LaneMask lanes) {
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    write_slot(c, in.d, l, extend(extend(read_slot(c, in.a, l), in.source_type), in.type));
  }
  return Action::next;
}

void read_modifiers(Decode& d) {
  static constexpr std::pair<std::string_view, U32> kRoundings[] = {
      {"rn", 0 | kHasRounding},
      {"rz", 1 | kHasRounding},
      {"rm", 2 | kHasRounding},
      {"rp", 3 | kHasRounding},
      {"rna", 4 | kHasRounding},
      {"rni", 0 | kIntegral | kHasRounding},
      {"rzi", 1 | kIntegral | kHasRounding},
      {"rmi", 2 | kIntegral | kHasRounding},
      {"rpi", 3 | kIntegral | kHasRounding}};
  static_assert(static_cast<int>(Rounding::rn) == 0 && static_cast<int>(Rounding::rna) == 4);
  for (const auto& [name, bits] : kRoundings) {
    if (d.has(name)) d.out.flags |= bits;
  }
  if (d.has("sat")) d.out.flags |= kSat;
  // Hardware does not flush on the way to f16.
  if (d.has("ftz") && d.type(0) != Type::f16) d.out.flags |= kFtz;
  if (d.has("relu")) d.out.flags |= kRelu;
  if (d.has("satfinite")) d.out.flags |= kSatFinite;
}

bool is_packed(Type type) {
  return type == Type::f16x2 || type == Type::bf16x2 || type == Type::e4m3x2 ||
         type == Type::e5m2x2;
}

void bind_packed(Decode& d, Type to, Type from) {
  if (from == Type::f32) {
    d.require_operands(3, 3);
    d.out.d = d.destination(0, to);
    d.out.a = d.source(1, Type::f32);
    d.out.b = d.source(2, Type::f32);
    const bool plain = (d.out.flags & ~kHasRounding) == 0;
    d.out.handler = plain && to == Type::f16x2 ? binary<Cost::costly, U32, float, float, PairToHalf>
                    : plain && to == Type::bf16x2
                        ? binary<Cost::costly, U32, float, float, PairToBFloat>
                        : pack_floats;
    return;
  }
  if (!is_packed(from)) return;
  d.require_operands(2, 2);
  d.out.d = d.destination(0, to);
  d.out.a = d.source(1, from);
  d.out.handler = repack;
}

void bind_cvt(Decode& d) {
  if (d.types().size() != 2) d.fail("cvt has a destination and a source type");
  const Type to = d.type(0);
  const Type from = d.type(1);
  d.out.type = to;
  d.out.source_type = from;
  read_modifiers(d);
  const U32 flags = d.out.flags;
  if (is_packed(to) || is_packed(from)) return bind_packed(d, to, from);
  d.require_operands(2, 2);
  const bool to_float = ir::is_float(to);
  const bool from_float = ir::is_float(from);
  if (to == Type::tf32) {
    d.out.d = d.destination(0, Type::b32);
    d.out.a = d.source(1, Type::f32);
    if (from == Type::f32) d.out.handler = float_to_float;
    return;
  }
  if (to_float) {
    d.out.d = d.destination(0, to);
  } else {
    d.out.d = d.wide_destination(d.operand(0), to);
  }
  d.out.a = from_float ? d.source(1, from) : d.wide_source(d.operand(1), from);
  if (!to_float && !from_float) {
    const bool wide_source = d.out.a.width == ir::Width::bits64 && ir::bit_size(from) < 64;
    const bool wide_destination = d.out.d.width == ir::Width::bits64 && ir::bit_size(to) < 64;
    if ((flags & kSat) != 0) {
      d.out.handler = integer_saturating;
    } else {
      d.out.handler = wide_destination ? integer_general : resize(from, to, wide_source);
    }
    return;
  }
  if (!to_float) {
    if ((flags & kIntegral) == 0) d.fail("conversion to an integer needs .rni, .rzi, .rmi or .rpi");
    d.out.handler = float_to_integer;
    return;
  }
  if (!from_float) {
    if ((flags & kHasRounding) == 0 || (flags & kIntegral) != 0)
      d.fail("conversion from an integer needs .rn, .rz, .rm or .rp");
    d.out.handler = integer_to_float;
    return;
  }
  const bool narrows = ir::bit_size(to) < ir::bit_size(from);
  if (narrows && (flags & kHasRounding) == 0)
    d.fail("a narrowing conversion needs a rounding modifier");
  const U32 others = flags & ~(kHasRounding | kFtz);
  if (from == Type::f16 && to == Type::f32 && others == 0 && (flags & kFtz) == 0) {
    d.out.handler = unary<Cost::costly, float, U16, HalfToFloat>;
  } else if (from == Type::bf16 && to == Type::f32 && others == 0) {
    d.out.handler = unary<Cost::costly, float, U16, BFloatToFloat>;
  } else if (from == Type::f32 && to == Type::f16 && others == 0 && (flags & kFtz) == 0) {
    d.out.handler = unary<Cost::costly, U16, float, FloatToHalf>;
  } else if (from == Type::f32 && to == Type::bf16 && others == 0) {
    d.out.handler = unary<Cost::costly, U16, float, FloatToBFloat>;
  } else {
    d.out.handler = float_to_float;
  }
}

constexpr ir::OpcodeRow kRows[] = {
    {"cvt.pack", "sat u16|s16|u8|s8|s32|b32+", bind_pack},
    {"cvt",
     "[rn|rz|rm|rp|rna|rni|rzi|rmi|rpi] [ftz] [sat] [satfinite] [relu] "
     "u8|u16|u32|u64|s8|s16|s32|s64|f16|bf16|f32|f64|tf32|f16x2|bf16x2|e4m3x2|e5m2x2+",
     bind_cvt,
     "destination type, then source type; packed results take two f32 sources or one packed "
     "source"},
};

}  // namespace

std::span<const ir::OpcodeRow> convert_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec
