// The bit layout of a tiled tensor map, in one place (the Field constants), and the driver's rules
// for its arguments.
#include "tma/tensor_map.hpp"

#include <stdexcept>
#include <string>

namespace ptxemu::tma {
namespace {

constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 32;
constexpr std::uint64_t kMaxStride = std::uint64_t{1} << 40;
constexpr unsigned kMaxBox = 256;
constexpr unsigned kMaxElementStride = 8;
constexpr unsigned kStrideUnit = 16;
constexpr std::uint64_t kAddressLimit = std::uint64_t{1} << 57;
constexpr std::uint64_t kMaxBoxBytes = 228 * 1024;  // the shared memory of a multiprocessor

/// A bit field of the map: 64-bit word, first bit, number of bits.
struct Field {
  unsigned word, first, width;

  constexpr std::uint64_t mask() const { return ((std::uint64_t{1} << width) - 1) << first; }
  void put(TensorMapBits& bits, std::uint64_t value) const {
    bits[word] = (bits[word] & ~mask()) | ((value << first) & mask());
  }
  std::uint64_t get(const TensorMapBits& bits) const { return (bits[word] & mask()) >> first; }
};

constexpr Field kRank{1, 4, 3};  // rank - 1
constexpr Field kType{1, 7, 4};
constexpr Field kInterleave{1, 11, 2};
constexpr Field kSwizzle{1, 13, 2};
constexpr Field kFill{1, 15, 1};
constexpr Field kTf32{1, 16, 1};
constexpr Field kL2Promotion{1, 17, 2};
constexpr Field kLargeTensor{1, 21, 1};  // some drivers set it; without effect on what is copied
constexpr Field kBoxBytes{
    8, 0, 32};  // words 8 and 9: notes of the driver that the copy engine does not need
constexpr Field kSharedAlignment{9, 0, 32};

/// Stride of dimension d >= 1 in units of 16 bytes: 32 low bits and 4 high bits.
constexpr Field stride_low(unsigned d) {
  return {1 + d / 2, d % 2 == 0 ? 0u : 32u, 32};
}
constexpr Field stride_high(unsigned d) {
  return {3, 32 + 4 * (d - 1), 4};
}
constexpr Field size_field(unsigned d) {
  return {4 + d / 2, d % 2 == 0 ? 0u : 32u, 32};
}  // size - 1
constexpr Field element_stride_field(unsigned d) {
  return {6, 32 + 3 * d, 3};
}  // - 1
constexpr Field box_field(unsigned d) {  // box - 1
  return d == 0 ? Field{6, 56, 8} : Field{7, 8 * (d - 1), 8};
}

/// Hardware type codes: binary64 and the flushing binary32 have changed places with the API's, tf32
/// is a flag on top of binary32.
constexpr std::uint64_t kCodeF32 = 7, kCodeF32Ftz = 8, kCodeF64 = 9, kCodeBf16 = 10;

struct TypeCode {
  std::uint64_t code;
  bool tf32;
};

TypeCode type_code(DataType type) {
  switch (type) {
    case DataType::f64:
      return {kCodeF64, false};
    case DataType::bf16:
      return {kCodeBf16, false};
    case DataType::f32_ftz:
      return {kCodeF32Ftz, false};
    case DataType::tf32:
      return {kCodeF32, true};
    case DataType::tf32_ftz:
      return {kCodeF32Ftz, true};
    default:
      return {static_cast<std::uint64_t>(type), false};
  }
}

DataType type_of(TypeCode type) {
  if (type.tf32 && type.code == kCodeF32) return DataType::tf32;
  if (type.tf32 && type.code == kCodeF32Ftz) return DataType::tf32_ftz;
  if (!type.tf32) {
    if (type.code == kCodeF32Ftz) return DataType::f32_ftz;
    if (type.code == kCodeF64) return DataType::f64;
    if (type.code == kCodeBf16) return DataType::bf16;
    if (type.code <= kCodeF32) return static_cast<DataType>(type.code);
  }
  throw std::invalid_argument("tensor map: data type code " + std::to_string(type.code) +
                              (type.tf32 ? " with the tf32 flag" : "") +
                              " does not exist on sm_90");
}

[[noreturn]] void reject(const std::string& argument, std::uint64_t value,
                         const std::string& allowed) {
  throw std::invalid_argument("tensor map: " + argument + " = " + std::to_string(value) +
                              "; allowed: " + allowed);
}

std::string indexed(const char* name, unsigned d) {
  return std::string(name).append("[").append(std::to_string(d)).append("]");
}

bool is_float(DataType type) {
  return type >= DataType::f16 && type <= DataType::tf32_ftz;
}

unsigned swizzle_bytes(Swizzle swizzle) {
  return 16u << static_cast<unsigned>(swizzle);
}

void validate_layout(const TensorMap& map) {
  if (map.rank < 1 || map.rank > kMaxRank) reject("rank", map.rank, "1 to 5");
  if (map.type > DataType::tf32_ftz) {
    reject("data type", static_cast<unsigned>(map.type),
           "0 to 12 on sm_90 (packed 4- and 6-bit types need sm_100)");
  }
  if (map.interleave > Interleave::bytes32)
    reject("interleave", static_cast<unsigned>(map.interleave), "0 to 2");
  if (map.swizzle > Swizzle::bytes128)
    reject("swizzle", static_cast<unsigned>(map.swizzle), "0 to 3 on sm_90");
  if (map.l2_promotion > L2Promotion::bytes256) {
    reject("L2 promotion", static_cast<unsigned>(map.l2_promotion), "0 to 3");
  }
  if (map.fill > OutOfBoundsFill::nan)
    reject("out-of-bounds fill", static_cast<unsigned>(map.fill), "0 and 1");
  if (map.fill == OutOfBoundsFill::nan && !is_float(map.type)) {
    reject("out-of-bounds fill", 1, "NaN fill for floating-point types only");
  }
  if (map.interleave != Interleave::none && map.rank < 3)
    reject("rank", map.rank, "3 to 5 with interleave");
}

/// The driver's own note of the box size. It rounds down where the copy engine rounds up.
std::uint64_t noted_box_bytes(const TensorMap& map) {
  std::uint64_t bytes = element_bytes(map.type);
  for (unsigned d = 0; d < map.rank; ++d) bytes *= map.box[d] / map.element_stride[d];
  return bytes;
}

void validate(const TensorMap& map) {
  validate_layout(map);
  const unsigned alignment = map.interleave == Interleave::bytes32 ? 32 : 16;
  if (map.address % alignment != 0 || map.address >= kAddressLimit) {
    reject("global address", map.address,
           "multiples of " + std::to_string(alignment) + " below 2^57");
  }
  for (unsigned d = 0; d < map.rank; ++d) {
    if (map.size[d] < 1 || map.size[d] > kMaxSize)
      reject(indexed("size", d), map.size[d], "1 to 2^32");
    if (map.box[d] < 1 || map.box[d] > kMaxBox) reject(indexed("box", d), map.box[d], "1 to 256");
    if (map.element_stride[d] < 1 || map.element_stride[d] > kMaxElementStride) {
      reject(indexed("element stride", d), map.element_stride[d], "1 to 8");
    }
    if (d > 0 && (map.stride[d] % alignment != 0 || map.stride[d] >= kMaxStride)) {
      reject(indexed("stride", d), map.stride[d],
             "multiples of " + std::to_string(alignment) + " below 2^40");
    }
  }
  if (const std::uint64_t bytes = noted_box_bytes(map); bytes > kMaxBoxBytes) {
    reject("box in bytes", bytes, "at most " + std::to_string(kMaxBoxBytes));
  }
  if (map.interleave != Interleave::none) return;
  const unsigned inner = map.box[0] * element_bytes(map.type);
  if (inner % 16 != 0) reject("box[0] in bytes", inner, "multiples of 16");
  if (map.swizzle != Swizzle::none && inner > swizzle_bytes(map.swizzle)) {
    reject("box[0] in bytes", inner,
           "at most the swizzle width of " + std::to_string(swizzle_bytes(map.swizzle)));
  }
}

std::uint64_t shared_alignment(Swizzle swizzle) {
  return swizzle == Swizzle::none ? 16 : 128ull << static_cast<unsigned>(swizzle);
}

/// All bits that an sm_90 tiled map of `rank` dimensions may have set in words 1 to 7.
TensorMapBits allowed_bits(unsigned rank) {
  TensorMapBits allowed{};
  const auto allow = [&](const Field& field) { allowed[field.word] |= field.mask(); };
  for (const Field& field :
       {kRank, kType, kInterleave, kSwizzle, kFill, kTf32, kL2Promotion, kLargeTensor}) {
    allow(field);
  }
  for (unsigned d = 0; d < rank; ++d) {
    allow(size_field(d));
    allow(element_stride_field(d));
    allow(box_field(d));
    if (d > 0) {
      allow(stride_low(d));
      allow(stride_high(d));
    }
  }
  return allowed;
}

}  // namespace

unsigned element_bytes(DataType type) {
  switch (type) {
    case DataType::u8:
      return 1;
    case DataType::u16:
    case DataType::f16:
    case DataType::bf16:
      return 2;
    case DataType::u64:
    case DataType::s64:
    case DataType::f64:
      return 8;
    case DataType::u32:
    case DataType::s32:
    case DataType::f32:
    case DataType::f32_ftz:
    case DataType::tf32:
    case DataType::tf32_ftz:
      return 4;
    default:
      reject("data type", static_cast<unsigned>(type), "0 to 12 on sm_90");
  }
}

TensorMapBits encode(const TensorMap& map) {
  validate(map);
  TensorMapBits bits{};
  bits[0] = map.address;
  const TypeCode type = type_code(map.type);
  kRank.put(bits, map.rank - 1);
  kType.put(bits, type.code);
  kTf32.put(bits, type.tf32 ? 1 : 0);
  kInterleave.put(bits, static_cast<std::uint64_t>(map.interleave));
  kSwizzle.put(bits, static_cast<std::uint64_t>(map.swizzle));
  kFill.put(bits, static_cast<std::uint64_t>(map.fill));
  kL2Promotion.put(bits, static_cast<std::uint64_t>(map.l2_promotion));
  for (unsigned d = 0; d < map.rank; ++d) {
    size_field(d).put(bits, map.size[d] - 1);
    box_field(d).put(bits, map.box[d] - 1);
    element_stride_field(d).put(bits, map.element_stride[d] - 1);
    if (d > 0) {
      stride_low(d).put(bits, map.stride[d] / kStrideUnit);
      stride_high(d).put(bits, (map.stride[d] / kStrideUnit) >> 32);
    }
  }
  kBoxBytes.put(bits, noted_box_bytes(map));
  kSharedAlignment.put(bits, shared_alignment(map.swizzle));
  return bits;
}

TensorMap decode(const TensorMapBits& bits) {
  TensorMap map;
  map.rank = static_cast<unsigned>(kRank.get(bits)) + 1;
  if (map.rank > kMaxRank) reject("rank", map.rank, "1 to 5");
  const TensorMapBits allowed = allowed_bits(map.rank);
  for (unsigned word = 1; word < 8; ++word) {
    if (const std::uint64_t unknown = bits[word] & ~allowed[word]; unknown != 0) {
      throw std::invalid_argument("tensor map: word " + std::to_string(word) + " is " +
                                  std::to_string(bits[word]) +
                                  ", which has bits that no tiled sm_90 map of rank " +
                                  std::to_string(map.rank) + " has: is this a tensor map?");
    }
  }
  map.type = type_of({kType.get(bits), kTf32.get(bits) != 0});
  map.address = bits[0];
  map.interleave = static_cast<Interleave>(kInterleave.get(bits));
  map.swizzle = static_cast<Swizzle>(kSwizzle.get(bits));
  map.l2_promotion = static_cast<L2Promotion>(kL2Promotion.get(bits));
  map.fill = static_cast<OutOfBoundsFill>(kFill.get(bits));
  for (unsigned d = 0; d < map.rank; ++d) {
    map.size[d] = size_field(d).get(bits) + 1;
    map.box[d] = static_cast<std::uint32_t>(box_field(d).get(bits)) + 1;
    map.element_stride[d] = static_cast<std::uint32_t>(element_stride_field(d).get(bits)) + 1;
    map.stride[d] = d == 0
                        ? element_bytes(map.type)
                        : (stride_low(d).get(bits) | stride_high(d).get(bits) << 32) * kStrideUnit;
  }
  validate(map);
  return map;
}

void replace(TensorMapBits& bits, MapField field, unsigned ordinal, std::uint64_t value) {
  ordinal %= kMaxRank;
  switch (field) {
    case MapField::global_address:
      bits[0] = value;
      break;
    case MapField::rank:
      kRank.put(bits, value);
      break;
    case MapField::box_dim:
      box_field(ordinal).put(bits, value - 1);
      break;
    case MapField::global_dim:
      size_field(ordinal).put(bits, value - 1);
      break;
    case MapField::global_stride:
      if (ordinal + 1 >= kMaxRank) break;
      stride_low(ordinal + 1).put(bits, value / kStrideUnit);
      stride_high(ordinal + 1).put(bits, (value / kStrideUnit) >> 32);
      break;
    case MapField::element_stride:
      element_stride_field(ordinal).put(bits, value - 1);
      break;
    case MapField::element_type:
      // The manual's codes are the hardware's, except for 11 and 12: tf32 with and without
      // flushing.
      kTf32.put(bits, value >= 11 ? 1 : 0);
      kType.put(bits, value == 11 ? kCodeF32 : value == 12 ? kCodeF32Ftz : value);
      break;
    case MapField::interleave_layout:
      kInterleave.put(bits, value);
      break;
    case MapField::swizzle_mode:
      kSwizzle.put(bits, value);
      break;
    case MapField::fill_mode:
      kFill.put(bits, value);
      break;
  }
}

}  // namespace ptxemu::tma
