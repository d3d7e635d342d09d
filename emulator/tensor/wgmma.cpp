// wgmma in four steps: decode B (and A) to numbers, then per warp load its 16 rows of D, multiply,
// store.
#include "tensor/wgmma.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "numeric/convert.hpp"
#include "tensor/multiply.hpp"
#include "tensor/operand.hpp"

namespace ptxemu::tensor {
namespace {

constexpr unsigned kM = 64;
constexpr unsigned kMaxN = 256;
constexpr unsigned kMaxK = 32;
constexpr unsigned kWarps = 4;
constexpr unsigned kChunkBytes = 16;

unsigned padded(unsigned n) {
  return (n + kColumnBlock - 1) / kColumnBlock * kColumnBlock;
}

std::span<const std::byte> chunk_at(std::span<const std::byte> shared, std::uint32_t offset) {
  return shared.subspan(offset, kChunkBytes);
}

void check_chunks(const char* operand, const std::vector<std::uint32_t>& chunks,
                  std::size_t shared_bytes) {
  for (const std::uint32_t offset : chunks) {
    if (offset + kChunkBytes > shared_bytes) {
      throw std::out_of_range("wgmma reads operand " + std::string(operand) +
                              " at shared address " + std::to_string(offset) +
                              ", but the CTA has " + std::to_string(shared_bytes) +
                              " bytes of shared memory");
    }
  }
}

/// Decodes a tile whose 16-byte chunks lie at `chunks` and writes element (mn, k) to numbers[mn *
/// mn_stride + k * k_stride].
void decode_tile(ElementType type, Major major, unsigned mn,
                 const std::vector<std::uint32_t>& chunks, std::span<const std::byte> shared,
                 bool negate, float* numbers, unsigned mn_stride, unsigned k_stride) {
  const unsigned per_chunk = kChunkBytes / element_bytes(type);
  const unsigned chunks_per_line = major == Major::k ? 2 : mn / per_chunk;
  const unsigned line_stride = major == Major::k ? mn_stride : k_stride;
  const unsigned element_stride = major == Major::k ? k_stride : mn_stride;
  const float sign = negate ? -1.0f : 1.0f;
  std::array<float, kMaxChunkElements> values;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    decode_elements(type, chunk_at(shared, chunks[i]), values.data());
    const std::size_t line = i / chunks_per_line;
    float* target =
        numbers + line * line_stride + (i % chunks_per_line) * per_chunk * element_stride;
    for (unsigned e = 0; e < per_chunk; ++e) target[e * element_stride] = sign * values[e];
  }
}

/// A fragment of one warp: register r of lane 4g + q holds 4 bytes of row g + 8 (r % 2), from byte
/// 4q + 16 (r / 2) of its 32.
void decode_a_fragment(ElementType type, const ConstLaneRegister* registers, bool negate,
                       float* rows, unsigned k) {
  const unsigned per_register = 4 / element_bytes(type);
  const float sign = negate ? -1.0f : 1.0f;
  std::array<float, 32 * 4> values;
  for (unsigned r = 0; r < kWgmmaARegisters; ++r) {
    decode_elements(type, std::as_bytes(std::span(registers[r], 32)), values.data());
    for (unsigned lane = 0; lane < 32; ++lane) {
      float* target =
          rows + (lane / 4 + 8 * (r % 2)) * k + (lane % 4) * per_register + (r / 2) * (k / 2);
      for (unsigned e = 0; e < per_register; ++e)
        target[e] = sign * values[lane * per_register + e];
    }
  }
}

using Registers = std::span<const LaneRegister>;

/// f16 accumulators: register 2j + h of lane 4g + q packs row g + 8h, columns 8j + 2q and 8j + 2q
/// + 1.
template <class Visit>
void for_each_f16_pair(Registers registers, const Visit& visit) {
  for (unsigned r = 0; r < registers.size(); ++r) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      visit(registers[r][lane], lane / 4 + 8 * (r % 2), 8 * (r / 2) + 2 * (lane % 4));
    }
  }
}

template <class Visit>
void for_each_word(Registers registers, const Visit& visit) {
  for (unsigned r = 0; r < registers.size(); ++r) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      visit(registers[r][lane], lane / 4 + 8 * (r / 2 % 2), 8 * (r / 4) + 2 * (lane % 4) + r % 2);
    }
  }
}

/// Rows of D before the products. Integer rows start at zero: their sums are exact in binary32 only
/// without the accumulators.
void load_rows(const WgmmaShape& shape, Registers registers, float* d, unsigned columns) {
  if (shape.d == ElementType::f32) {
    float_kernels().load_fragment(registers.data(), shape.n, d, columns);
  } else if (shape.d == ElementType::f16) {
    for_each_f16_pair(registers, [&](std::uint32_t word, unsigned row, unsigned column) {
      d[row * columns + column] = numeric::f16_to_f32(static_cast<std::uint16_t>(word));
      d[row * columns + column + 1] = numeric::f16_to_f32(static_cast<std::uint16_t>(word >> 16));
    });
  }
}

std::uint32_t integer_sum(std::uint32_t accumulator, float products, bool satfinite) {
  using Limits = std::numeric_limits<std::int32_t>;
  std::int64_t sum =
      std::int64_t{static_cast<std::int32_t>(accumulator)} + static_cast<std::int64_t>(products);
  if (satfinite) sum = std::clamp<std::int64_t>(sum, Limits::min(), Limits::max());
  return static_cast<std::uint32_t>(sum);
}

void store_rows(const WgmmaShape& shape, Registers registers, const float* d, unsigned columns,
                bool scale_d) {
  if (shape.d == ElementType::f32) {
    float_kernels().store_fragment(registers.data(), shape.n, d, columns);
  } else if (shape.d == ElementType::f16) {
    for_each_f16_pair(registers, [&](std::uint32_t& word, unsigned row, unsigned column) {
      const float* pair = d + row * columns + column;
      const std::uint32_t high = numeric::f32_to_f16(pair[1]);
      word = numeric::f32_to_f16(pair[0]) | high << 16;
    });
  } else {
    for_each_word(registers, [&](std::uint32_t& word, unsigned row, unsigned column) {
      word = integer_sum(scale_d ? word : 0, d[row * columns + column], shape.satfinite);
    });
  }
}

struct OperandChunks {
  std::vector<std::uint32_t> a, b;
};

OperandChunks chunks_of(const WgmmaShape& shape, const WgmmaOperands& operands) {
  OperandChunks chunks;
  if (operands.a_registers.empty()) {
    chunks.a = operand_chunks(MatrixDescriptor::decode(operands.a_descriptor), operands.a_major, kM,
                              element_bytes(shape.a));
  }
  chunks.b = operand_chunks(MatrixDescriptor::decode(operands.b_descriptor), operands.b_major,
                            shape.n, element_bytes(shape.b));
  return chunks;
}

void execute(const WgmmaShape& shape, const WgmmaOperands& operands, const OperandChunks& chunks,
             std::span<const std::byte> shared) {
  const unsigned k = shape.k();
  const unsigned columns = padded(shape.n);
  alignas(64) std::array<float, kM * kMaxK> a;
  alignas(64) std::array<float, kMaxK * kMaxN> b;
  alignas(64) std::array<float, kWarpRows * kMaxN> d;
  if (columns != shape.n) b.fill(0);
  decode_tile(shape.b, operands.b_major, shape.n, chunks.b, shared, operands.negate_b, b.data(), 1,
              columns);
  if (operands.a_registers.empty()) {
    decode_tile(shape.a, operands.a_major, kM, chunks.a, shared, operands.negate_a, a.data(), k, 1);
  }
  const bool starts_at_zero =
      !operands.scale_d || columns != shape.n || shape.d == ElementType::s32;
  for (unsigned warp = 0; warp < kWarps; ++warp) {
    float* rows = a.data() + warp * kWarpRows * k;
    if (!operands.a_registers.empty()) {
      decode_a_fragment(shape.a, operands.a_registers.data() + warp * kWgmmaARegisters,
                        operands.negate_a, rows, k);
    }
    const Registers registers =
        operands.d_registers.subspan(warp * shape.d_registers(), shape.d_registers());
    if (starts_at_zero) std::fill_n(d.data(), kWarpRows * columns, 0.0f);
    if (operands.scale_d) load_rows(shape, registers, d.data(), columns);
    float_kernels().multiply(rows, b.data(), d.data(), k, columns);
    store_rows(shape, registers, d.data(), columns, operands.scale_d);
  }
}

bool is_fp8(ElementType type) {
  return type == ElementType::e4m3 || type == ElementType::e5m2;
}

}  // namespace

std::string wgmma_error(const WgmmaShape& shape) {
  const bool integer = is_integer(shape.b);
  if (shape.n < 8 || shape.n > kMaxN || shape.n % 8 != 0) {
    return "wgmma: n = " + std::to_string(shape.n) +
           "; allowed are the multiples of 8 from 8 to 256";
  }
  if (integer && shape.n % 16 != 0 && shape.n != 8 && shape.n != 24) {
    return "wgmma: n = " + std::to_string(shape.n) +
           " for integers; allowed are 8, 24 and the multiples of 16 up to 256";
  }
  const bool same = shape.a == shape.b;
  const bool mixed = (is_fp8(shape.a) && is_fp8(shape.b)) || (integer && is_integer(shape.a));
  const bool inputs = same || mixed;
  bool result = shape.d == ElementType::f32;
  if (shape.b == ElementType::f16 || is_fp8(shape.b))
    result = result || shape.d == ElementType::f16;
  if (integer) result = shape.d == ElementType::s32;
  const bool known = shape.b == ElementType::f16 || shape.b == ElementType::bf16 ||
                     shape.b == ElementType::tf32 || is_fp8(shape.b) ||
                     (integer && shape.b != ElementType::s32 && shape.a != ElementType::s32);
  if (!inputs || !result || !known) {
    return "wgmma: unsupported types; allowed are f16.f16.f16, f32.f16.f16, f32.bf16.bf16, "
           "f32.tf32.tf32, "
           "{f16,f32}.{e4m3,e5m2}.{e4m3,e5m2} and s32.{s8,u8}.{s8,u8}";
  }
  if (shape.satfinite && !integer) return "wgmma: .satfinite is allowed with .s32 only";
  return {};
}

void wgmma(const WgmmaShape& shape, const WgmmaOperands& operands,
           std::span<const std::byte> shared) {
  const OperandChunks chunks = chunks_of(shape, operands);
  check_chunks("A", chunks.a, shared.size());
  check_chunks("B", chunks.b, shared.size());
  execute(shape, operands, chunks, shared);
}

std::vector<std::uint32_t> wgmma_footprint(const WgmmaShape& shape, const WgmmaOperands& operands) {
  OperandChunks chunks = chunks_of(shape, operands);
  std::vector<std::uint32_t> all = std::move(chunks.a);
  all.insert(all.end(), chunks.b.begin(), chunks.b.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace ptxemu::tensor
