#include "api/scalar.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace jfa::detail {

float float_from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  float magnitude = 0;
  if (exponent == 0x1f) {
    magnitude = fraction == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

float float_from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t half_from_float(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.0F) return sign | 0x7c00;  // half-way to 2^16 and above: infinity
  // One unit in the last place of the result: 2^-24 for subnormals, else 2^(exponent - 11).
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude < 2^exponent
  const bool subnormal = magnitude < 0x1p-14F;
  const int unit = subnormal ? -24 : exponent - 11;
  // Scaling by a power of two is exact; nearbyint rounds to even in the default rounding mode.
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, -unit)));
  // Biased exponent and fraction form one number, so a carry moves into the next binade by itself;
  // normal numbers have 1024 ≤ steps ≤ 2048, hence the 0x400.
  const int binade = ((unit + 25) << 10) - 0x400;
  return static_cast<std::uint16_t>(sign | (binade + steps));
}

std::uint16_t bfloat16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  const std::uint32_t to_even = 0x7fff + ((bits >> 16) & 1);
  return static_cast<std::uint16_t>((bits + to_even) >> 16);
}

double real_at(const Tensor& tensor, std::int64_t offset) {
  switch (tensor.dtype) {
    case DType::float32:
      return static_cast<const float*>(tensor.data)[offset];
    case DType::float16:
      return float_from_half(static_cast<const std::uint16_t*>(tensor.data)[offset]);
    case DType::bfloat16:
      return float_from_bfloat16(static_cast<const std::uint16_t*>(tensor.data)[offset]);
    case DType::float64:
      return static_cast<const double*>(tensor.data)[offset];
    case DType::int32:
    case DType::int64:
      return static_cast<double>(integer_at(tensor, offset));
  }
  return 0;
}

std::int64_t integer_at(const Tensor& tensor, std::int64_t offset) {
  if (tensor.dtype == DType::int32) return static_cast<const std::int32_t*>(tensor.data)[offset];
  return static_cast<const std::int64_t*>(tensor.data)[offset];
}

void store_at(const Tensor& tensor, std::int64_t offset, double value) {
  switch (tensor.dtype) {
    case DType::float32:
      static_cast<float*>(tensor.data)[offset] = static_cast<float>(value);
      break;
    case DType::float16:
      static_cast<std::uint16_t*>(tensor.data)[offset] = half_from_float(static_cast<float>(value));
      break;
    case DType::bfloat16:
      static_cast<std::uint16_t*>(tensor.data)[offset] =
          bfloat16_from_float(static_cast<float>(value));
      break;
    case DType::float64:
      static_cast<double*>(tensor.data)[offset] = value;
      break;
    case DType::int32:
      static_cast<std::int32_t*>(tensor.data)[offset] = static_cast<std::int32_t>(value);
      break;
    case DType::int64:
      static_cast<std::int64_t*>(tensor.data)[offset] = static_cast<std::int64_t>(value);
      break;
  }
}

}  // namespace jfa::detail
