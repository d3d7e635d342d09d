// mma.sync by fragment maps: gather the operands of the warp into small matrices, multiply,
// scatter.
#include "tensor/mma.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>
#include <stdexcept>

#include "numeric/convert.hpp"
#include "tensor/operand.hpp"

namespace ptxemu::tensor {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kMaxM = 16, kN = 8, kMaxK = 32;

bool is_fp8(ElementType type) {
  return type == ElementType::e4m3 || type == ElementType::e5m2;
}

bool is_quad_pair_shape(const MmaShape& shape) {
  return shape.m == 8 && shape.k == 4 && shape.a == ElementType::f16;
}

struct Place {
  unsigned row, column;
};

/// Elements per register (f64 elements fill two registers and count as one element per "register"
/// here).
unsigned per_register(ElementType type) {
  const unsigned bytes = element_bytes(type);
  return bytes >= 4 ? 1 : 4 / bytes;
}

/// The quad-pair shape m8n8k4: lanes 0-3 and 16-19 (and so on) compute one 8x8 product of their
/// own.
unsigned quad_pair(unsigned lane) {
  return lane % 16 / 4;
}
Place quad_pair_a(const MmaShape& shape, unsigned lane, unsigned i) {
  const unsigned upper = lane >= 16 ? 4 : 0;
  return shape.a_column_major ? Place{i + upper, lane % 4} : Place{lane % 4 + upper, i};
}
Place quad_pair_b(const MmaShape& shape, unsigned lane, unsigned i) {
  const unsigned upper = lane >= 16 ? 4 : 0;
  return shape.b_row_major ? Place{lane % 4, i + upper} : Place{i, lane % 4 + upper};
}
Place quad_pair_c(ElementType type, unsigned lane, unsigned i) {
  const unsigned upper = lane >= 16 ? 4 : 0;
  if (type == ElementType::f16) return {lane % 4 + upper, i};
  return {(lane & 1) + (i & 2) + upper, (i & 4) + (lane & 2) + (i & 1)};
}

/// One product: D starts as C. Binary64 holds every product exactly, and 32-bit integer sums too.
struct Product {
  std::array<std::array<double, kMaxK>, kMaxM> a{};
  std::array<std::array<double, kN>, kMaxK> b{};
  std::array<std::array<double, kN>, kMaxM> d{};

  void accumulate(const MmaShape& shape) {
    for (unsigned row = 0; row < shape.m; ++row) {
      for (unsigned k = 0; k < shape.k; ++k) {
        for (unsigned column = 0; column < kN; ++column) d[row][column] += a[row][k] * b[k][column];
      }
    }
  }
};

using Operand = std::span<const ConstLaneRegister>;
using Result = std::span<const LaneRegister>;
using Values = std::array<double, kLanes * 4>;  // of one register, lane by lane

/// f64 elements fill two registers and are visited as one.
unsigned visited_registers(ElementType type, std::size_t registers) {
  return static_cast<unsigned>(type == ElementType::f64 ? registers / 2 : registers);
}

Values read_register(ElementType type, Operand registers, unsigned r) {
  Values values;
  if (type == ElementType::f64) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const std::uint64_t low = registers[2 * r][lane];
      const std::uint64_t high = registers[2 * r + 1][lane];
      values[lane] = std::bit_cast<double>(low | high << 32);
    }
  } else if (type == ElementType::s32) {
    for (unsigned lane = 0; lane < kLanes; ++lane)
      values[lane] = static_cast<std::int32_t>(registers[r][lane]);
  } else {
    std::array<float, kLanes * 4> numbers;
    decode_elements(type, std::as_bytes(std::span(registers[r], kLanes)), numbers.data());
    std::copy_n(numbers.data(), kLanes * per_register(type), values.data());
  }
  return values;
}

std::uint32_t integer_word(double sum, bool satfinite) {
  using Limits = std::numeric_limits<std::int32_t>;
  auto value = static_cast<std::int64_t>(sum);
  if (satfinite) value = std::clamp<std::int64_t>(value, Limits::min(), Limits::max());
  return static_cast<std::uint32_t>(value);
}

void write_register(const MmaShape& shape, Result registers, unsigned r, const Values& values) {
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (shape.d == ElementType::f64) {
      const auto bits = std::bit_cast<std::uint64_t>(values[lane]);
      registers[2 * r][lane] = static_cast<std::uint32_t>(bits);
      registers[2 * r + 1][lane] = static_cast<std::uint32_t>(bits >> 32);
    } else if (shape.d == ElementType::f16) {
      const std::uint32_t low = numeric::f32_to_f16(static_cast<float>(values[2 * lane]));
      const std::uint32_t high = numeric::f32_to_f16(static_cast<float>(values[2 * lane + 1]));
      registers[r][lane] = low | high << 16;
    } else if (shape.d == ElementType::s32) {
      registers[r][lane] = integer_word(values[lane], shape.satfinite);
    } else {
      registers[r][lane] = std::bit_cast<std::uint32_t>(static_cast<float>(values[lane]));
    }
  }
}

/// The four lanes of a quad hold consecutive elements along K of row g (A) or column g (B). Further
/// registers of A go through the row groups first, then along K; those of B along K.
void read_a(const MmaShape& shape, Operand a, Product& product) {
  const unsigned row_groups = shape.m / 8;
  const unsigned run = 4 * per_register(shape.a);
  for (unsigned r = 0; r < visited_registers(shape.a, a.size()); ++r) {
    const Values values = read_register(shape.a, a, r);
    for (unsigned g = 0; g < 8; ++g) {
      std::copy_n(values.data() + g * run, run,
                  product.a[g + 8 * (r % row_groups)].data() + r / row_groups * run);
    }
  }
}

void read_b(const MmaShape& shape, Operand b, Product& product) {
  const unsigned run = 4 * per_register(shape.b);
  for (unsigned r = 0; r < visited_registers(shape.b, b.size()); ++r) {
    const Values values = read_register(shape.b, b, r);
    for (unsigned g = 0; g < 8; ++g) {
      for (unsigned i = 0; i < run; ++i) product.b[r * run + i][g] = values[g * run + i];
    }
  }
}

/// C and D: a lane holds two neighbouring columns of row g, in one register (f16) or in two; then
/// come rows 8 to 15.
template <class Visit>
void for_each_accumulator(ElementType type, unsigned r, const Visit& visit) {
  const unsigned per = per_register(type);
  for (unsigned i = 0; i < kLanes * per; ++i) {
    const unsigned lane = i / per;
    const unsigned element = r * per + i % per;
    visit(i, lane / 4 + 8 * (element / 2), 2 * (lane % 4) + element % 2);
  }
}

void execute(const MmaShape& shape, Operand a, Operand b, Operand c, Result d) {
  Product product;
  read_a(shape, a, product);
  read_b(shape, b, product);
  for (unsigned r = 0; r < visited_registers(shape.c, c.size()); ++r) {
    const Values values = read_register(shape.c, c, r);
    for_each_accumulator(shape.c, r, [&](unsigned i, unsigned row, unsigned column) {
      product.d[row][column] = values[i];
    });
  }
  product.accumulate(shape);
  for (unsigned r = 0; r < visited_registers(shape.d, d.size()); ++r) {
    Values values;
    for_each_accumulator(shape.d, r, [&](unsigned i, unsigned row, unsigned column) {
      values[i] = product.d[row][column];
    });
    write_register(shape, d, r, values);
  }
}

void execute_quad_pairs(const MmaShape& shape, Operand a, Operand b, Operand c, Result d) {
  std::array<Product, 4> products;
  for (unsigned r = 0; r < a.size(); ++r) {
    const Values a_values = read_register(shape.a, a, r);
    const Values b_values = read_register(shape.b, b, r);
    for (unsigned i = 0; i < 2 * kLanes; ++i) {
      const unsigned lane = i / 2;
      const Place at_a = quad_pair_a(shape, lane, 2 * r + i % 2);
      const Place at_b = quad_pair_b(shape, lane, 2 * r + i % 2);
      products[quad_pair(lane)].a[at_a.row][at_a.column] = a_values[i];
      products[quad_pair(lane)].b[at_b.row][at_b.column] = b_values[i];
    }
  }
  const auto accumulator = [&](ElementType type, unsigned r, unsigned i) -> double& {
    const unsigned per = per_register(type);
    const Place place = quad_pair_c(type, i / per, r * per + i % per);
    return products[quad_pair(i / per)].d[place.row][place.column];
  };
  for (unsigned r = 0; r < c.size(); ++r) {
    const Values values = read_register(shape.c, c, r);
    for (unsigned i = 0; i < kLanes * per_register(shape.c); ++i)
      accumulator(shape.c, r, i) = values[i];
  }
  for (Product& product : products) product.accumulate(shape);
  for (unsigned r = 0; r < d.size(); ++r) {
    Values values;
    for (unsigned i = 0; i < kLanes * per_register(shape.d); ++i)
      values[i] = accumulator(shape.d, r, i);
    write_register(shape, d, r, values);
  }
}

std::string shape_text(const MmaShape& shape) {
  std::string text = "m";
  text += std::to_string(shape.m) + "n" + std::to_string(shape.n) + "k";
  return text + std::to_string(shape.k);
}

struct Allowed {
  unsigned m, k;
};

/// The shapes of one family of input types.
std::span<const Allowed> allowed_shapes(ElementType type) {
  static constexpr Allowed kF16[] = {{16, 8}, {16, 16}, {8, 4}};
  static constexpr Allowed kBf16[] = {{16, 8}, {16, 16}};
  static constexpr Allowed kTf32[] = {{16, 4}, {16, 8}};
  static constexpr Allowed kFp8[] = {{16, 16}, {16, 32}};
  static constexpr Allowed kInt8[] = {{8, 16}, {16, 16}, {16, 32}};
  static constexpr Allowed kF64[] = {{8, 4}, {16, 4}, {16, 8}, {16, 16}};
  switch (type) {
    case ElementType::f16:
      return kF16;
    case ElementType::bf16:
      return kBf16;
    case ElementType::tf32:
      return kTf32;
    case ElementType::e4m3:
    case ElementType::e5m2:
      return kFp8;
    case ElementType::s8:
    case ElementType::u8:
      return kInt8;
    case ElementType::f64:
      return kF64;
    default:
      return {};
  }
}

bool types_match(const MmaShape& shape) {
  const bool same = shape.a == shape.b;
  const bool result_same = shape.c == shape.d;
  switch (shape.a) {
    case ElementType::f16: {
      const auto is_result = [](ElementType t) {
        return t == ElementType::f16 || t == ElementType::f32;
      };
      // Only the quad-pair shape may accumulate f16 into f32 or the other way round.
      return same && is_result(shape.c) && is_result(shape.d) && (result_same || shape.m == 8);
    }
    case ElementType::bf16:
    case ElementType::tf32:
      return same && shape.d == ElementType::f32 && result_same;
    case ElementType::e4m3:
    case ElementType::e5m2:
      return is_fp8(shape.b) && result_same &&
             (shape.d == ElementType::f32 || shape.d == ElementType::f16);
    case ElementType::s8:
    case ElementType::u8:
      return (shape.b == ElementType::s8 || shape.b == ElementType::u8) &&
             shape.d == ElementType::s32 && result_same;
    case ElementType::f64:
      return same && shape.d == ElementType::f64 && result_same;
    default:
      return false;
  }
}

}  // namespace

std::string mma_error(const MmaShape& shape) {
  const auto shapes = allowed_shapes(shape.a);
  if (shapes.empty() || !types_match(shape)) {
    return "mma: unsupported types; allowed are D.A.B.C of {f16,f32}.f16.f16 (C as D), "
           "f32.bf16.bf16.f32, "
           "f32.tf32.tf32.f32, {f16,f32}.{e4m3,e5m2}.{e4m3,e5m2} (C as D), s32.{s8,u8}.{s8,u8}.s32 "
           "and f64.f64.f64.f64";
  }
  const bool found =
      shape.n == kN && std::any_of(shapes.begin(), shapes.end(), [&](const Allowed& allowed) {
        return allowed.m == shape.m && allowed.k == shape.k;
      });
  if (!found) {
    std::string text =
        "mma: shape " + shape_text(shape) + " does not exist for this type; allowed are";
    for (const Allowed& allowed : shapes) {
      text += ' ';
      text += shape_text({.m = allowed.m, .n = kN, .k = allowed.k});
    }
    return text;
  }
  if ((shape.a_column_major || shape.b_row_major) && !is_quad_pair_shape(shape)) {
    return "mma: only m8n8k4 with f16 has other layouts than .row.col";
  }
  if (shape.satfinite && !is_integer(shape.a))
    return "mma: .satfinite is allowed for integers only";
  return {};
}

MmaRegisters mma_registers(const MmaShape& shape) {
  if (is_quad_pair_shape(shape)) {
    const auto accumulators = [](ElementType type) { return type == ElementType::f16 ? 4u : 8u; };
    return {.a = 2, .b = 2, .c = accumulators(shape.c), .d = accumulators(shape.d)};
  }
  const auto registers = [](unsigned elements, ElementType type) {
    return elements * element_bytes(type) / (kLanes * 4);
  };
  return {.a = registers(shape.m * shape.k, shape.a),
          .b = registers(shape.k * shape.n, shape.b),
          .c = registers(shape.m * shape.n, shape.c),
          .d = registers(shape.m * shape.n, shape.d)};
}

void mma(const MmaShape& shape, std::span<const ConstLaneRegister> a,
         std::span<const ConstLaneRegister> b, std::span<const ConstLaneRegister> c,
         std::span<const LaneRegister> d) {
  if (const std::string error = mma_error(shape); !error.empty())
    throw std::invalid_argument(error);
  const MmaRegisters count = mma_registers(shape);
  if (a.size() != count.a || b.size() != count.b || c.size() != count.c || d.size() != count.d) {
    throw std::invalid_argument(
        "mma " + shape_text(shape) + ": wrong number of registers; needed are A " +
        std::to_string(count.a) + ", B " + std::to_string(count.b) + ", C " +
        std::to_string(count.c) + ", D " + std::to_string(count.d));
  }
  if (is_quad_pair_shape(shape)) return execute_quad_pairs(shape, a, b, c, d);
  execute(shape, a, b, c, d);
}

}  // namespace ptxemu::tensor
