// Implementation of rounded arithmetic (by the processor's own rounding modes) and of the
// approximate functions (by libm in binary64).
#include "numeric/arithmetic.hpp"

#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>

namespace ptxemu::numeric {
namespace {

int processor_mode(Rounding rounding) {
  switch (rounding) {
    case Rounding::rz:
      return FE_TOWARDZERO;
    case Rounding::rm:
      return FE_DOWNWARD;
    case Rounding::rp:
      return FE_UPWARD;
    default:
      return FE_TONEAREST;
  }
}

/// The same value, of which the compiler knows nothing.
template <class Value>
Value opaque(Value value) {
  volatile Value copy = value;
  return copy;
}

/// Evaluates `operation` under a rounding mode. The volatile copies keep the compiler from moving
/// the operation across the switches.
template <class Operation, class... Values>
auto rounded(Rounding rounding, Operation operation, Values... values) {
  if (rounding == Rounding::rn) return operation(values...);
  std::fesetround(processor_mode(rounding));
  const auto result = opaque(operation(opaque(values)...));
  std::fesetround(FE_TONEAREST);
  return result;
}

/// a + b rounded to odd: rounding this once more to a narrower format gives the correctly rounded
/// sum.
double add_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum) || sum == 0) return sum;
  const double b_part = sum - a;
  const double error = (a - (sum - b_part)) + (b - b_part);  // exact (two-sum)
  if (error == 0) return sum;
  auto bits = std::bit_cast<std::uint64_t>(sum);
  if ((error < 0) != (sum < 0)) --bits;  // sum was rounded away from zero
  return std::bit_cast<double>(bits | 1);
}

double smallest_normal(Format format) {
  return format == Format::f16 ? 0x1p-14 : 0x1p-126;
}

double read_half(Format format, std::uint16_t bits, HalfOptions options) {
  const double value = format == Format::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
  return options.flush && std::fabs(value) < smallest_normal(format) ? std::copysign(0.0, value)
                                                                     : value;
}

/// Flushes what is tiny after rounding to the format's precision with unbounded exponent.
double flush_half(Format format, double value) {
  constexpr double kScale = 0x1p4;
  if (std::fabs(value) >= smallest_normal(format)) return value;
  const double rounded = decode(format, encode(format, value * kScale));
  return std::fabs(rounded) < smallest_normal(format) * kScale ? std::copysign(0.0, value) : value;
}

std::uint16_t write_half(Format format, double value, HalfOptions options) {
  if (options.flush) value = flush_half(format, value);
  return static_cast<std::uint16_t>(
      encode(format, value, {.relu = options.relu, .saturate_to_one = options.saturate}));
}

constexpr float kSmallestNormal = 0x1p-126f;

float with_flush(float a, bool flush) {
  return flush ? flush_subnormal(a) : a;
}

template <class Function>
float approximate(float a, bool flush, Function function) {
  const double exact = function(static_cast<double>(with_flush(a, flush)));
  return with_flush(static_cast<float>(exact), flush);
}

/// The binary64 value whose lower 32 bits are cleared and whose subnormals are flushed.
double upper_word(double value) {
  const double kept = std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) & ~0xffffffffull);
  return std::fabs(kept) < std::numeric_limits<double>::min() ? std::copysign(0.0, kept) : kept;
}

}  // namespace

#define PTXEMU_DEFINE_ROUNDED(TYPE)                                                           \
  TYPE add(TYPE a, TYPE b, Rounding rounding) {                                               \
    return rounded(                                                                           \
        rounding, [](TYPE x, TYPE y) -> TYPE { return x + y; }, a, b);                        \
  }                                                                                           \
  TYPE mul(TYPE a, TYPE b, Rounding rounding) {                                               \
    return rounded(                                                                           \
        rounding, [](TYPE x, TYPE y) -> TYPE { return x * y; }, a, b);                        \
  }                                                                                           \
  TYPE div(TYPE a, TYPE b, Rounding rounding) {                                               \
    return rounded(                                                                           \
        rounding, [](TYPE x, TYPE y) -> TYPE { return x / y; }, a, b);                        \
  }                                                                                           \
  TYPE fma(TYPE a, TYPE b, TYPE c, Rounding rounding) {                                       \
    return rounded(                                                                           \
        rounding, [](TYPE x, TYPE y, TYPE z) -> TYPE { return std::fma(x, y, z); }, a, b, c); \
  }                                                                                           \
  TYPE sqrt(TYPE a, Rounding rounding) {                                                      \
    return rounded(                                                                           \
        rounding, [](TYPE x) -> TYPE { return std::sqrt(x); }, a);                            \
  }
PTXEMU_DEFINE_ROUNDED(float)
PTXEMU_DEFINE_ROUNDED(double)
#undef PTXEMU_DEFINE_ROUNDED

float mul_ftz(float a, float b, Rounding rounding) {
  return fma_ftz(a, b, std::copysign(0.0f, a * b), rounding);
}

float fma_ftz(float a, float b, float c, Rounding rounding) {
  a = flush_subnormal(a), b = flush_subnormal(b), c = flush_subnormal(c);
  const float result = flush_subnormal(fma(a, b, c, rounding));
  if (std::fabs(result) != kSmallestNormal) return result;
  // Once more without an underflow: the smaller factor, below 2^-62, and c are scaled up.
  constexpr float kScale = 0x1p64f;
  const float scaled = std::fabs(a) < std::fabs(b) ? fma(a * kScale, b, c * kScale, rounding)
                                                   : fma(a, b * kScale, c * kScale, rounding);
  return std::fabs(scaled) < kSmallestNormal * kScale ? std::copysign(0.0f, result) : result;
}

std::uint16_t half_add(Format format, std::uint16_t a, std::uint16_t b, HalfOptions options) {
  return write_half(
      format, add_to_odd(read_half(format, a, options), read_half(format, b, options)), options);
}

std::uint16_t half_sub(Format format, std::uint16_t a, std::uint16_t b, HalfOptions options) {
  return write_half(
      format, add_to_odd(read_half(format, a, options), -read_half(format, b, options)), options);
}

std::uint16_t half_mul(Format format, std::uint16_t a, std::uint16_t b, HalfOptions options) {
  return write_half(format, read_half(format, a, options) * read_half(format, b, options), options);
}

std::uint16_t half_fma(Format format, std::uint16_t a, std::uint16_t b, std::uint16_t c,
                       HalfOptions options) {
  const double product = read_half(format, a, options) * read_half(format, b, options);  // exact
  return write_half(format, add_to_odd(product, read_half(format, c, options)), options);
}

float ex2_approx(float a, bool flush) {
  return approximate(a, flush, [](double x) { return std::exp2(x); });
}

float lg2_approx(float a, bool flush) {
  return approximate(a, flush, [](double x) { return std::log2(x); });
}

float rcp_approx(float a, bool flush) {
  return approximate(a, flush, [](double x) { return 1 / x; });
}

float rsqrt_approx(float a, bool flush) {
  return approximate(a, flush, [](double x) { return 1 / std::sqrt(x); });
}

float sqrt_approx(float a, bool flush) {
  return approximate(a, flush, [](double x) { return std::sqrt(x); });
}

float sin_approx(float a, bool flush) {
  return approximate(a, flush, [](double x) { return std::sin(x); });
}

float cos_approx(float a, bool flush) {
  return approximate(a, flush, [](double x) { return std::cos(x); });
}

float tanh_approx(float a) {
  return approximate(a, false, [](double x) { return std::tanh(x); });
}

float div_approx(float a, float b, bool flush) {
  a = with_flush(a, flush);
  b = with_flush(b, flush);
  if (std::fabs(b) > 0x1p126f && !std::isinf(b)) {
    const float sign = std::copysign(1.0f, a) * std::copysign(1.0f, b);
    return std::isfinite(a) ? 0.0f * sign : std::numeric_limits<float>::quiet_NaN();
  }
  return with_flush(a / b, flush);
}

float div_full(float a, float b, bool flush) {
  return with_flush(with_flush(a, flush) / with_flush(b, flush), flush);
}

double rcp_approx_f64(double a) {
  return upper_word(1 / upper_word(a));
}
double rsqrt_approx_f64(double a) {
  return upper_word(1 / std::sqrt(upper_word(a)));
}

std::uint16_t half_ex2(Format format, std::uint16_t a, bool flush) {
  const HalfOptions options{.flush = flush};
  return write_half(format, std::exp2(read_half(format, a, options)), options);
}

std::uint16_t half_tanh(Format format, std::uint16_t a) {
  return write_half(format, std::tanh(read_half(format, a, {})), {});
}

}  // namespace ptxemu::numeric
