// Scalar arithmetic with PTX's rounding modes, and the approximate functions of the special
// function unit. E.g. add.rz.f32, fma.rm.f64, ex2.approx.f32. The approximations are correctly
// rounded here; hardware may differ within the bounds of the PTX manual.
#pragma once

#include <cstdint>

#include "numeric/convert.hpp"

namespace ptxemu::numeric {

/// binary32/binary64 operations under rn, rz, rm or rp. Flushing of subnormals is the caller's (see
/// flush_subnormal).
float add(float a, float b, Rounding rounding);
float mul(float a, float b, Rounding rounding);
float fma(float a, float b, float c, Rounding rounding);
float div(float a, float b, Rounding rounding);
float sqrt(float a, Rounding rounding);
double add(double a, double b, Rounding rounding);
double mul(double a, double b, Rounding rounding);
double fma(double a, double b, double c, Rounding rounding);
double div(double a, double b, Rounding rounding);
double sqrt(double a, Rounding rounding);

/// mul.ftz and fma.ftz of binary32, rn, rz, rm or rp: subnormal inputs count as zero, and a result
/// is flushed when it is below 2^-126 after rounding to 24 bits with unbounded exponent (measured).
/// flush_subnormal(mul(...)) differs from that only where it gives exactly +-2^-126.
float mul_ftz(float a, float b, Rounding rounding);
float fma_ftz(float a, float b, float c, Rounding rounding);

/// f16 and bf16 arithmetic (one rounding to nearest even, canonical NaN 0x7fff), on the bits of
/// `format` (f16 or bf16).
struct HalfOptions {
  bool flush = false;  // `.ftz` (f16 only): subnormal inputs and results become zero of their sign
  bool saturate = false;  // `.sat` (f16 only): clamp to [0, 1], NaN becomes +0
  bool relu = false;      // `.relu` (fma only): negative results become +0, NaN becomes canonical
};
std::uint16_t half_add(Format format, std::uint16_t a, std::uint16_t b, HalfOptions options = {});
std::uint16_t half_sub(Format format, std::uint16_t a, std::uint16_t b, HalfOptions options = {});
std::uint16_t half_mul(Format format, std::uint16_t a, std::uint16_t b, HalfOptions options = {});
std::uint16_t half_fma(Format format, std::uint16_t a, std::uint16_t b, std::uint16_t c,
                       HalfOptions options = {});

/// Approximate functions of `.f32`; `flush` is the `.ftz` modifier (inputs and results).
float ex2_approx(float a, bool flush);
float lg2_approx(float a, bool flush);
float rcp_approx(float a, bool flush);
float rsqrt_approx(float a, bool flush);
float sqrt_approx(float a, bool flush);
float sin_approx(float a, bool flush);
float cos_approx(float a, bool flush);
float tanh_approx(float a);
float div_approx(float a, float b,
                 bool flush);  // div.approx: 2^126 < |b| < 2^128 gives 0 (or NaN for infinite a)
float div_full(float a, float b, bool flush);  // div.full: scaled, no such range limit

/// `.f64`: only the upper 32 bits of the input count and of the result are produced
/// (rcp.approx.ftz.f64, rsqrt.approx.ftz.f64).
double rcp_approx_f64(double a);
double rsqrt_approx_f64(double a);

/// ex2 and tanh of f16 / bf16 (`format`), correctly rounded; `flush` is `.ftz`.
std::uint16_t half_ex2(Format format, std::uint16_t a, bool flush);
std::uint16_t half_tanh(Format format, std::uint16_t a);

}  // namespace ptxemu::numeric
