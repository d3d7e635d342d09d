// Implementation of the conversions: every float format is described by four numbers, and one
// rounding function serves them all.
#include "numeric/convert.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace ptxemu::numeric {
namespace {

/// A binary format with `exponent_bits` and `mantissa_bits`, whose smallest normal exponent is
/// `min_exponent`.
struct Layout {
  int exponent_bits;
  int mantissa_bits;
  int min_exponent;
  std::uint32_t max_finite;  // bits of the largest finite magnitude
  std::uint32_t infinity;    // bits of what an overflow becomes without satfinite
  std::uint32_t nan;         // canonical NaN
};

constexpr Layout layout_of(Format format) {
  switch (format) {
    case Format::f16:
      return {5, 10, -14, 0x7bff, 0x7c00, 0x7fff};
    case Format::bf16:
      return {8, 7, -126, 0x7f7f, 0x7f80, 0x7fff};
    case Format::tf32:
      return {8, 10, -126, 0x3fbff, 0x3fc00, 0x3ffff};
    case Format::e4m3:
      return {4, 3, -6, 0x7e, 0x7f, 0x7f};
    case Format::e5m2:
      return {5, 2, -14, 0x7b, 0x7c, 0x7f};
    case Format::e2m1:
      return {2, 1, 0, 0x7, 0x7, 0x7};
    case Format::e2m3:
      return {2, 3, 0, 0x1f, 0x1f, 0x1f};
    case Format::e3m2:
      return {3, 2, -2, 0x1f, 0x1f, 0x1f};
    default:
      return {8, 23, -126, 0x7f7fffff, 0x7f800000, 0x7fffffff};  // f32
  }
}

/// Rounds a non-negative value to an integer; `negative` is the sign of the number it stands for.
double round_magnitude(double magnitude, Rounding rounding, bool negative) {
  const double below = std::floor(magnitude);
  const double rest = magnitude - below;
  if (rest == 0) return below;
  switch (rounding) {
    case Rounding::rz:
      return below;
    case Rounding::rm:
      return negative ? below + 1 : below;
    case Rounding::rp:
      return negative ? below : below + 1;
    case Rounding::rna:
      return rest >= 0.5 ? below + 1 : below;
    case Rounding::rn:
      break;
  }
  if (rest != 0.5) return rest > 0.5 ? below + 1 : below;
  return std::fmod(below, 2) == 0 ? below : below + 1;
}

/// Whether a value beyond the largest finite one overflows (towards infinity) rather than stopping
/// at it.
bool overflows(Rounding rounding, bool negative) {
  switch (rounding) {
    case Rounding::rz:
      return false;
    case Rounding::rm:
      return negative;
    case Rounding::rp:
      return !negative;
    default:
      return true;
  }
}

std::uint32_t encode_ue8m0(double value, Rounding rounding) {
  if (std::isnan(value)) return 0xff;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);
  if (fraction == 0) return 0;
  exponent += 126;  // |value| = fraction * 2^exponent with fraction in [0.5, 1), bias 127
  if (rounding == Rounding::rp && fraction != 0.5) ++exponent;
  return static_cast<std::uint32_t>(exponent < 0 ? 0 : exponent > 254 ? 254 : exponent);
}

/// Keeps the upper bits of `magnitude` >> `shift` under `rounding`.
std::uint64_t shift_rounded(std::uint64_t magnitude, int shift, Rounding rounding, bool negative) {
  if (shift <= 0) return magnitude;
  const std::uint64_t below = magnitude >> shift;
  const std::uint64_t rest = magnitude & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  bool up = false;
  switch (rounding) {
    case Rounding::rn:
      up = rest > half || (rest == half && (below & 1) != 0);
      break;
    case Rounding::rna:
      up = rest >= half;
      break;
    case Rounding::rz:
      break;
    case Rounding::rm:
      up = negative && rest != 0;
      break;
    case Rounding::rp:
      up = !negative && rest != 0;
      break;
  }
  return below + (up ? 1 : 0);
}

struct SignedMagnitude {
  std::uint64_t magnitude;
  bool negative;
};

SignedMagnitude split_sign(std::uint64_t bits, bool is_signed) {
  const bool negative = is_signed && (bits >> 63) != 0;
  return {negative ? ~bits + 1 : bits, negative};
}

/// Rounds an integer to `precision` significant bits.
double integer_to_precision(std::uint64_t bits, bool is_signed, Rounding rounding, int precision) {
  const auto [magnitude, negative] = split_sign(bits, is_signed);
  const int shift = 64 - std::countl_zero(magnitude) - precision;
  const double value =
      std::ldexp(static_cast<double>(shift_rounded(magnitude, shift, rounding, negative)),
                 shift > 0 ? shift : 0);
  return negative ? -value : value;
}

}  // namespace

std::uint32_t encode(Format format, double value, EncodeOptions options) {
  if (format == Format::ue8m0) return encode_ue8m0(value, options.rounding);
  const Layout layout = layout_of(format);
  const int tf32_shift =
      format == Format::tf32 ? 13 : 0;  // tf32 keeps the place of binary32's upper bits
  const int sign_bit = layout.exponent_bits + layout.mantissa_bits;
  if (options.flush_input && format != Format::f16 && std::fabs(value) < 0x1p-126) {
    value = std::copysign(0.0, value);
  }
  if (std::isnan(value)) {
    if (options.saturate_to_one) return 0;
    return layout.nan << tf32_shift;
  }
  if (options.relu && std::signbit(value)) value = 0;
  if (options.saturate_to_one) value = value <= 0 ? 0.0 : std::fmin(value, 1.0);

  const bool negative = std::signbit(value);
  const double magnitude = std::fabs(value);
  std::uint32_t bits = 0;
  if (std::isinf(magnitude)) {
    bits = options.satfinite ? layout.max_finite : layout.infinity;
  } else if (magnitude != 0) {
    int exponent = std::ilogb(magnitude);
    if (exponent < layout.min_exponent) exponent = layout.min_exponent;
    const int quantum = exponent - layout.mantissa_bits;
    const double units =
        round_magnitude(std::ldexp(magnitude, -quantum), options.rounding, negative);
    // A carry out of the mantissa moves into the exponent by itself: the fields are adjacent.
    const auto biased = static_cast<std::uint64_t>(exponent - layout.min_exponent);
    const std::uint64_t wide = static_cast<std::uint64_t>(units) + (biased << layout.mantissa_bits);
    if (wide <= layout.max_finite) {
      bits = static_cast<std::uint32_t>(wide);
    } else {
      const bool infinite = !options.satfinite && overflows(options.rounding, negative);
      bits = infinite ? layout.infinity : layout.max_finite;
    }
  }
  return (bits | (negative ? 1u << sign_bit : 0u)) << tf32_shift;
}

double decode(Format format, std::uint32_t bits) {
  if (format == Format::ue8m0) {
    bits &= 0xff;
    return bits == 0xff ? std::numeric_limits<double>::quiet_NaN()
                        : std::ldexp(1.0, static_cast<int>(bits) - 127);
  }
  const Layout layout = layout_of(format);
  if (format == Format::tf32) bits >>= 13;
  const int sign_bit = layout.exponent_bits + layout.mantissa_bits;
  const bool negative = ((bits >> sign_bit) & 1) != 0;
  const std::uint32_t magnitude = bits & ((1u << sign_bit) - 1);
  const bool has_infinity = layout.infinity == layout.max_finite + 1 && format != Format::e4m3;
  double value = 0;
  if (magnitude > layout.max_finite) {
    value = has_infinity && magnitude == layout.infinity ? std::numeric_limits<double>::infinity()
                                                         : std::numeric_limits<double>::quiet_NaN();
  } else {
    const int exponent = static_cast<int>(magnitude >> layout.mantissa_bits);
    const std::uint32_t mantissa = magnitude & ((1u << layout.mantissa_bits) - 1);
    const std::uint32_t units = exponent > 0 ? mantissa | (1u << layout.mantissa_bits) : mantissa;
    const int quantum =
        layout.min_exponent + (exponent > 0 ? exponent - 1 : 0) - layout.mantissa_bits;
    value = std::ldexp(static_cast<double>(units), quantum);
  }
  return negative ? -value : value;
}

float f16_to_f32(std::uint16_t bits) {
  // The exponent is rebased by a multiplication, which also normalises subnormals.
  const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
  std::uint32_t result = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  if (magnitude >= 0x0f800000u) result = magnitude > 0x0f800000u ? 0x7fffffffu : 0x7f800000u;
  if (result != 0x7fffffffu) result |= (bits & 0x8000u) << 16;
  return std::bit_cast<float>(result);
}

float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float e4m3_to_f32(std::uint8_t bits) {
  return static_cast<float>(decode(Format::e4m3, bits));
}
float e5m2_to_f32(std::uint8_t bits) {
  return f16_to_f32(static_cast<std::uint16_t>(bits << 8));
}

std::uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Adding 0.5 shifts the subnormal's units to the low end of the mantissa, rounded by the adder.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float narrow(double value, Rounding rounding) {
  if (rounding == Rounding::rn) return static_cast<float>(value);
  return std::bit_cast<float>(encode(Format::f32, value, {.rounding = rounding}));
}

double round_to_integral(double value, Rounding rounding) {
  if (!std::isfinite(value)) return value;
  const bool negative = std::signbit(value);
  return std::copysign(round_magnitude(std::fabs(value), rounding, negative), value);
}

std::uint64_t to_integer(double value, Rounding rounding, unsigned bits, bool is_signed,
                         bool source_is_f64) {
  if (std::isnan(value)) {
    if (!source_is_f64 && bits != 64) return 0;
    const std::uint64_t pattern = std::uint64_t{1} << (bits - 1);
    return is_signed ? ~(pattern - 1) : pattern;
  }
  const double rounded = round_to_integral(value, rounding);
  const double limit = std::ldexp(1.0, static_cast<int>(is_signed ? bits - 1 : bits));
  if (rounded >= limit)
    return is_signed ? (std::uint64_t{1} << (bits - 1)) - 1 : ~std::uint64_t{0} >> (64 - bits);
  if (is_signed) {
    if (rounded < -limit) return ~((std::uint64_t{1} << (bits - 1)) - 1);
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(rounded));
  }
  return rounded <= 0 ? 0 : static_cast<std::uint64_t>(rounded);
}

float integer_to_f32(std::uint64_t bits, bool is_signed, Rounding rounding) {
  return static_cast<float>(integer_to_precision(bits, is_signed, rounding, 24));
}

double integer_to_f64(std::uint64_t bits, bool is_signed, Rounding rounding) {
  return integer_to_precision(bits, is_signed, rounding, 53);
}

std::uint16_t integer_to_16bit(Format format, std::uint64_t bits, bool is_signed,
                               Rounding rounding) {
  const double value =
      integer_to_precision(bits, is_signed, rounding, format == Format::f16 ? 11 : 8);
  return static_cast<std::uint16_t>(encode(format, value, {.rounding = rounding}));
}

float flush_subnormal(float value) {
  return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value;
}

}  // namespace ptxemu::numeric
