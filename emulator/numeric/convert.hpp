// Conversions between binary32/binary64 and the narrow floating-point formats of PTX, and between
// floating point and integers, with every rounding mode and modifier that `cvt` has. All functions
// are pure and bit exact.
#pragma once

#include <cstdint>

namespace ptxemu::numeric {

/// Storage formats. tf32 lives in 32-bit registers in binary32 layout; every other narrow format is
/// right aligned.
enum class Format : std::uint8_t { f64, f32, tf32, f16, bf16, e4m3, e5m2, e2m1, e2m3, e3m2, ue8m0 };

/// PTX rounding modifiers: nearest even, towards zero, towards -inf, towards +inf, nearest with
/// ties away from zero.
enum class Rounding : std::uint8_t { rn, rz, rm, rp, rna };

struct EncodeOptions {
  Rounding rounding = Rounding::rn;
  bool satfinite = false;  // magnitudes beyond the largest finite value become that value; NaN
                           // becomes the canonical NaN
  bool relu = false;       // negative values become +0, NaN becomes the canonical NaN
  bool saturate_to_one = false;  // `.sat`: clamp to [0, 1], NaN becomes +0
  bool flush_input =
      false;  // `.ftz`: a subnormal binary32 input counts as zero, except for f16 (as measured)
};

/// Rounds `value` to `format` and returns its bits. What overflows becomes infinity (e4m3, which
/// has none: NaN), with satfinite or a rounding towards zero the largest finite value.
std::uint32_t encode(Format format, double value, EncodeOptions options = {});

/// The exact value of the low bits of `bits` in `format` (not f64). NaN payloads collapse to a
/// quiet NaN.
double decode(Format format, std::uint32_t bits);

/// Fast paths of `decode` and of `encode` with rounding to nearest even; NaN results are canonical
/// (0x7fff).
float f16_to_f32(std::uint16_t bits);
float bf16_to_f32(std::uint16_t bits);
float e4m3_to_f32(std::uint8_t bits);
float e5m2_to_f32(std::uint8_t bits);
std::uint16_t f32_to_f16(float value);
std::uint16_t f32_to_bf16(float value);

/// binary64 to binary32 with a directed rounding (`cvt.rz.f32.f64` and friends).
float narrow(double value, Rounding rounding);

/// Rounds to an integral value in the same format (`cvt.rni/rzi/rmi/rpi.f32.f32`).
double round_to_integral(double value, Rounding rounding);

/// Floating point to a `bits`-wide integer (8, 16, 32, 64), rounded, clamped to the range. NaN
/// gives 0, except when the source is binary64 or the destination has 64 bits: then the bit pattern
/// 1 << (bits - 1). The result is sign- or zero-extended to 64 bits.
std::uint64_t to_integer(double value, Rounding rounding, unsigned bits, bool is_signed,
                         bool source_is_f64);

/// 64-bit integers to binary32 / binary64 / f16 / bf16 with one rounding.
float integer_to_f32(std::uint64_t bits, bool is_signed, Rounding rounding);
double integer_to_f64(std::uint64_t bits, bool is_signed, Rounding rounding);
std::uint16_t integer_to_16bit(Format format, std::uint64_t bits, bool is_signed,
                               Rounding rounding);

/// Subnormal binary32 values become zero of the same sign.
float flush_subnormal(float value);

}  // namespace ptxemu::numeric
