// wgmma in four steps: decode B (and A) to numbers, then per warp load its 16 rows of D, multiply,
// store.
#include "tensor/wgmma.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "tensor/multiply.hpp"
#include "tensor/operand.hpp"

namespace ptxemu::tensor {
namespace {

constexpr unsigned kM = 64;
constexpr unsigned kMaxN = 256;
constexpr unsigned kMaxK = 32;
constexpr unsigned kWarps = 4;
constexpr unsigned kLanes = 32;
constexpr unsigned kChunkBytes = 16;

unsigned padded(unsigned n) {
  return (n + kColumnBlock - 1) / kColumnBlock * kColumnBlock;
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

/// Decodes the chunks of an operand in their order: K major gives [mn][k], MN major gives [k][mn].
void decode_chunks(ElementType type, const std::vector<std::uint32_t>& chunks,
                   std::span<const std::byte> shared, float* numbers) {
  alignas(64) std::array<std::byte, kMaxN * kMaxK> packed;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    std::memcpy(packed.data() + i * kChunkBytes, shared.data() + chunks[i], kChunkBytes);
  }
  decode_elements(type, std::span(packed).first(chunks.size() * kChunkBytes), numbers);
}

/// to[column][row] = from[row][column]; `to` has rows of `to_stride` numbers.
void transpose(const float* from, unsigned rows, unsigned columns, float* to, unsigned to_stride) {
  constexpr unsigned kBlock = 8;  // every extent is a multiple of it
  for (unsigned row = 0; row < rows; row += kBlock) {
    for (unsigned column = 0; column < columns; ++column) {
      for (unsigned i = 0; i < kBlock; ++i)
        to[column * to_stride + row + i] = from[(row + i) * columns + column];
    }
  }
}

/// B as [k][columns], where columns is n padded with zeros.
void decode_b(const WgmmaShape& shape, Major major, const std::vector<std::uint32_t>& chunks,
              std::span<const std::byte> shared, float* b, unsigned columns) {
  const unsigned k = shape.k();
  if (major == Major::mn && columns == shape.n) return decode_chunks(shape.b, chunks, shared, b);
  alignas(64) std::array<float, kMaxN * kMaxK> numbers;
  decode_chunks(shape.b, chunks, shared, numbers.data());
  if (columns != shape.n) std::fill_n(b, k * columns, 0.0f);
  if (major == Major::k) return transpose(numbers.data(), shape.n, k, b, columns);
  for (unsigned i = 0; i < k; ++i)
    std::copy_n(numbers.data() + i * shape.n, shape.n, b + i * columns);
}

/// A as [64][k] from shared memory.
void decode_a(const WgmmaShape& shape, Major major, const std::vector<std::uint32_t>& chunks,
              std::span<const std::byte> shared, float* a) {
  if (major == Major::k) return decode_chunks(shape.a, chunks, shared, a);
  alignas(64) std::array<float, kM * kMaxK> numbers;
  decode_chunks(shape.a, chunks, shared, numbers.data());
  transpose(numbers.data(), shape.k(), kM, a, shape.k());
}

/// A as [64][k] from registers: lanes 4g .. 4g + 3 of register r hold half a row, row g + 8 (r % 2)
/// and half r / 2.
void decode_a(const WgmmaShape& shape, std::span<const ConstLaneRegister> registers, float* a) {
  const unsigned half = shape.k() / 2;
  std::array<float, kLanes * 4> values;
  for (unsigned r = 0; r < registers.size(); ++r) {
    const unsigned warp = r / kWgmmaARegisters;
    const unsigned place = r % kWgmmaARegisters;
    decode_elements(shape.a, std::as_bytes(std::span(registers[r], kLanes)), values.data());
    for (unsigned g = 0; g < 8; ++g) {
      const unsigned row = warp * kWarpRows + g + 8 * (place % 2);
      std::copy_n(values.data() + g * half, half, a + row * 2 * half + place / 2 * half);
    }
  }
}

using Registers = std::span<const LaneRegister>;

/// f16 accumulators: register 2j + h packs rows 8h .. 8h + 7, columns 8j .. 8j + 7 row by row.
void load_f16_rows(Registers registers, float* d, unsigned columns) {
  std::array<float, kLanes * 2> block;
  for (unsigned r = 0; r < registers.size(); ++r) {
    decode_elements(ElementType::f16, std::as_bytes(std::span(registers[r], kLanes)), block.data());
    float* target = d + (r % 2) * 8 * columns + (r / 2) * 8;
    for (unsigned g = 0; g < 8; ++g) std::copy_n(block.data() + 8 * g, 8, target + g * columns);
  }
}

void store_f16_rows(Registers registers, const float* d, unsigned columns) {
  std::array<float, kLanes * 2> block;
  std::array<std::uint16_t, kLanes * 2> bits;
  for (unsigned r = 0; r < registers.size(); ++r) {
    const float* source = d + (r % 2) * 8 * columns + (r / 2) * 8;
    for (unsigned g = 0; g < 8; ++g) std::copy_n(source + g * columns, 8, block.data() + 8 * g);
    encode_f16(block, bits.data());
    std::memcpy(registers[r], bits.data(), sizeof bits);
  }
}

std::uint32_t integer_sum(std::uint32_t accumulator, float products, bool satfinite) {
  using Limits = std::numeric_limits<std::int32_t>;
  std::int64_t sum =
      std::int64_t{static_cast<std::int32_t>(accumulator)} + static_cast<std::int32_t>(products);
  if (satfinite) sum = std::clamp<std::int64_t>(sum, Limits::min(), Limits::max());
  return static_cast<std::uint32_t>(sum);
}

/// Registers 4j + 2h + i of lane 4g + q: row g + 8h, column 8j + 2q + i.
void add_integer_rows(Registers registers, const float* products, unsigned columns, bool scale_d,
                      bool satfinite) {
  for (unsigned r = 0; r < registers.size(); ++r) {
    const float* source = products + (r / 2 % 2) * 8 * columns + (r / 4) * 8 + r % 2;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      std::uint32_t& word = registers[r][lane];
      word =
          integer_sum(scale_d ? word : 0, source[lane / 4 * columns + 2 * (lane % 4)], satfinite);
    }
  }
}

/// Rows of D before the products. Integers start at zero: their products' sums are exact in
/// binary32, with D they are not.
void load_rows(const WgmmaShape& shape, Registers registers, float* d, unsigned columns) {
  if (shape.d == ElementType::f32)
    float_kernels().load_fragment(registers.data(), shape.n, d, columns);
  if (shape.d == ElementType::f16) load_f16_rows(registers, d, columns);
}

void store_rows(const WgmmaShape& shape, Registers registers, const float* d, unsigned columns,
                bool scale_d) {
  if (shape.d == ElementType::f32)
    float_kernels().store_fragment(registers.data(), shape.n, d, columns);
  if (shape.d == ElementType::f16) store_f16_rows(registers, d, columns);
  if (shape.d == ElementType::s32)
    add_integer_rows(registers, d, columns, scale_d, shape.satfinite);
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
  decode_b(shape, operands.b_major, chunks.b, shared, b.data(), columns);
  if (operands.a_registers.empty()) {
    decode_a(shape, operands.a_major, chunks.a, shared, a.data());
  } else {
    decode_a(shape, operands.a_registers, a.data());
  }
  if (operands.negate_a != operands.negate_b) {
    for (unsigned i = 0; i < kM * k; ++i) a[i] = -a[i];
  }
  const bool starts_at_zero =
      !operands.scale_d || columns != shape.n || shape.d == ElementType::s32;
  for (unsigned warp = 0; warp < kWarps; ++warp) {
    const Registers registers =
        operands.d_registers.subspan(warp * shape.d_registers(), shape.d_registers());
    if (starts_at_zero) std::fill_n(d.data(), kWarpRows * columns, 0.0f);
    if (operands.scale_d) load_rows(shape, registers, d.data(), columns);
    float_kernels().multiply(a.data() + warp * kWarpRows * k, b.data(), d.data(), k, columns);
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
