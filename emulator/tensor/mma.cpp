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

/// Distance along K between the two register groups of A and B: the four lanes of a quad hold it
/// together.
unsigned k_group(ElementType type) {
  return 4 * per_register(type);
}

/// Element e of register r of `lane`: A is m x k, B is k x n, C and D are m x n (two neighbouring
/// columns per register pair).
Place a_place(const MmaShape& shape, unsigned lane, unsigned r, unsigned e) {
  const unsigned row_groups = shape.m / 8;
  return {lane / 4 + 8 * (r % row_groups),
          (r / row_groups) * k_group(shape.a) + (lane % 4) * per_register(shape.a) + e};
}
Place b_place(const MmaShape& shape, unsigned lane, unsigned r, unsigned e) {
  return {r * k_group(shape.b) + (lane % 4) * per_register(shape.b) + e, lane / 4};
}
Place c_place(ElementType type, unsigned lane, unsigned r, unsigned e) {
  const unsigned i = r * per_register(type) + e;
  return {lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2};
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

/// f64 elements fill two registers and are visited as one.
unsigned visited_registers(ElementType type, std::size_t registers) {
  return static_cast<unsigned>(type == ElementType::f64 ? registers / 2 : registers);
}

/// Calls visit(lane, r, e, value) for every element of an operand.
template <class Visit>
void read_operand(ElementType type, std::span<const ConstLaneRegister> registers,
                  const Visit& visit) {
  for (unsigned r = 0; r < visited_registers(type, registers.size()); ++r) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      std::array<float, 4> values;
      if (type == ElementType::f64) {
        const std::uint64_t low = registers[2 * r][lane];
        const std::uint64_t high = registers[2 * r + 1][lane];
        visit(lane, r, 0u, std::bit_cast<double>(low | high << 32));
      } else if (type == ElementType::s32) {
        visit(lane, r, 0u, static_cast<double>(static_cast<std::int32_t>(registers[r][lane])));
      } else {
        decode_elements(type, std::as_bytes(std::span(registers[r] + lane, 1)), values.data());
        for (unsigned e = 0; e < per_register(type); ++e) visit(lane, r, e, double{values[e]});
      }
    }
  }
}

std::uint32_t integer_word(double sum, bool satfinite) {
  using Limits = std::numeric_limits<std::int32_t>;
  auto value = static_cast<std::int64_t>(sum);
  if (satfinite) value = std::clamp<std::int64_t>(value, Limits::min(), Limits::max());
  return static_cast<std::uint32_t>(value);
}

/// Writes D; value(lane, r, e) gives an element.
template <class Value>
void write_result(const MmaShape& shape, std::span<const LaneRegister> registers,
                  const Value& value) {
  for (unsigned r = 0; r < visited_registers(shape.d, registers.size()); ++r) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const double first = value(lane, r, 0u);
      if (shape.d == ElementType::f64) {
        const auto bits = std::bit_cast<std::uint64_t>(first);
        registers[2 * r][lane] = static_cast<std::uint32_t>(bits);
        registers[2 * r + 1][lane] = static_cast<std::uint32_t>(bits >> 32);
      } else if (shape.d == ElementType::f16) {
        const std::uint32_t low = numeric::f32_to_f16(static_cast<float>(first));
        const std::uint32_t high = numeric::f32_to_f16(static_cast<float>(value(lane, r, 1u)));
        registers[r][lane] = low | high << 16;
      } else if (shape.d == ElementType::s32) {
        registers[r][lane] = integer_word(first, shape.satfinite);
      } else {
        registers[r][lane] = std::bit_cast<std::uint32_t>(static_cast<float>(first));
      }
    }
  }
}

using Operand = std::span<const ConstLaneRegister>;

void execute(const MmaShape& shape, Operand a, Operand b, Operand c,
             std::span<const LaneRegister> d) {
  Product product;
  read_operand(shape.a, a, [&](unsigned lane, unsigned r, unsigned e, double value) {
    const Place place = a_place(shape, lane, r, e);
    product.a[place.row][place.column] = value;
  });
  read_operand(shape.b, b, [&](unsigned lane, unsigned r, unsigned e, double value) {
    const Place place = b_place(shape, lane, r, e);
    product.b[place.row][place.column] = value;
  });
  read_operand(shape.c, c, [&](unsigned lane, unsigned r, unsigned e, double value) {
    const Place place = c_place(shape.c, lane, r, e);
    product.d[place.row][place.column] = value;
  });
  product.accumulate(shape);
  write_result(shape, d, [&](unsigned lane, unsigned r, unsigned e) {
    const Place place = c_place(shape.d, lane, r, e);
    return product.d[place.row][place.column];
  });
}

void execute_quad_pairs(const MmaShape& shape, Operand a, Operand b, Operand c,
                        std::span<const LaneRegister> d) {
  std::array<Product, 4> products;
  read_operand(shape.a, a, [&](unsigned lane, unsigned r, unsigned e, double value) {
    const Place place = quad_pair_a(shape, lane, 2 * r + e);
    products[quad_pair(lane)].a[place.row][place.column] = value;
  });
  read_operand(shape.b, b, [&](unsigned lane, unsigned r, unsigned e, double value) {
    const Place place = quad_pair_b(shape, lane, 2 * r + e);
    products[quad_pair(lane)].b[place.row][place.column] = value;
  });
  read_operand(shape.c, c, [&](unsigned lane, unsigned r, unsigned e, double value) {
    const Place place = quad_pair_c(shape.c, lane, r * per_register(shape.c) + e);
    products[quad_pair(lane)].d[place.row][place.column] = value;
  });
  for (Product& product : products) product.accumulate(shape);
  write_result(shape, d, [&](unsigned lane, unsigned r, unsigned e) {
    const Place place = quad_pair_c(shape.d, lane, r * per_register(shape.d) + e);
    return products[quad_pair(lane)].d[place.row][place.column];
  });
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
