// Names and sizes of PTX types.
#include <array>

#include "ir/instruction.hpp"
#include "ir/modifiers.hpp"

namespace ptxemu::ir {
namespace {

struct TypeRow {
  std::string_view name;
  int bits;
};
// In the order of Type.
constexpr std::array<TypeRow, 38> kTypes{{
    {"none", 0},    {"pred", 1},     {"b8", 8},      {"b16", 16}, {"b32", 32},   {"b64", 64},
    {"b128", 128},  {"u8", 8},       {"u16", 16},    {"u32", 32}, {"u64", 64},   {"s8", 8},
    {"s16", 16},    {"s32", 32},     {"s64", 64},    {"f16", 16}, {"f16x2", 32}, {"bf16", 16},
    {"bf16x2", 32}, {"f32", 32},     {"f32x2", 64},  {"f64", 64}, {"tf32", 32},  {"e4m3", 8},
    {"e5m2", 8},    {"e4m3x2", 16},  {"e5m2x2", 16}, {"e2m1", 4}, {"e2m1x2", 8}, {"e2m3x2", 16},
    {"e3m2x2", 16}, {"ue8m0x2", 16}, {"u4", 4},      {"s4", 4},   {"b1", 1},     {"u16x2", 32},
    {"s16x2", 32},  {"", 0},
}};

}  // namespace

int bit_size(Type type) {
  return kTypes[static_cast<std::size_t>(type)].bits;
}
std::string_view to_string(Type type) {
  return kTypes[static_cast<std::size_t>(type)].name;
}

Type parse_type(std::string_view name) {
  for (std::size_t i = 1; i + 1 < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<Type>(i);
  }
  return Type::none;
}

bool is_float(Type type) {
  switch (type) {
    case Type::f16:
    case Type::f16x2:
    case Type::bf16:
    case Type::bf16x2:
    case Type::f32:
    case Type::f32x2:
    case Type::f64:
    case Type::tf32:
      return true;
    default:
      return false;
  }
}

bool is_signed(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}

Width width_of(Type type) {
  const int bits = bit_size(type);
  if (type == Type::pred) return Width::predicate;
  if (bits <= 32) return Width::bits32;
  return bits == 64 ? Width::bits64 : Width::bits128;
}

}  // namespace ptxemu::ir
