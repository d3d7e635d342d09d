// ld, st and their relatives.
#include "exec/cluster.hpp"
#include "exec/lanes.hpp"
#include "exec/opcodes.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Type;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

std::size_t slot_bytes(ir::Width width) {
  return width == ir::Width::bits32 ? 4 : width == ir::Width::bits64 ? 8 : 16;
}

/// Copies one element of `kBytes` from memory to a lane's slot, extended to the slot's width.
template <std::size_t kBytes, bool kSigned>
void load_element(std::byte* slot, std::size_t slot_size, const std::byte* from) {
  if constexpr (kBytes == 16) {
    std::memcpy(slot, from, 16);
  } else {
    U64 value = 0;
    std::memcpy(&value, from, kBytes);
    if constexpr (kSigned && kBytes < 8) {
      constexpr int kShift = 64 - 8 * static_cast<int>(kBytes);
      value = static_cast<U64>(static_cast<std::int64_t>(value << kShift) >> kShift);
    }
    std::memcpy(slot, &value, std::min<std::size_t>(slot_size, 8));
  }
}

template <std::size_t kBytes, bool kSigned>
Action load(Context& c, const Instruction& in, LaneMask lanes) {
  Context::Addresses addresses;
  Context::Pointers pointers;
  c.addresses(in.addresses[0], lanes, addresses);
  const U32 bytes = static_cast<U32>(kBytes) * in.elements;
  c.resolve(in, {in.space, AccessKind::read, bytes, bytes, Proxy::generic, true}, lanes, addresses,
            pointers);
  if (in.semantics != ir::Semantics::weak) std::atomic_thread_fence(std::memory_order_acquire);
  for (std::size_t e = 0; e < in.list.size(); ++e) {
    const Operand& target = in.list[e];
    auto* out = c.row<std::byte>(target);
    const std::size_t slot = slot_bytes(target.width);
    if (kBytes == 4 && slot == 4) {  // the common case without extension
      for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
        const auto l = static_cast<std::size_t>(std::countr_zero(rest));
        std::memcpy(out + 4 * l, pointers[l] + 4 * e, 4);
      }
      continue;
    }
    for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
      const auto l = static_cast<std::size_t>(std::countr_zero(rest));
      load_element<kBytes, kSigned>(out + slot * l, slot, pointers[l] + kBytes * e);
    }
  }
  return Action::next;
}

/// Kernel parameters have the same value in every lane.
template <std::size_t kBytes, bool kSigned>
Action load_parameter(Context& c, const Instruction& in, LaneMask lanes) {
  const std::byte* from = c.launch->parameters + in.addresses[0].offset;
  for (std::size_t e = 0; e < in.list.size(); ++e) {
    const Operand& target = in.list[e];
    auto* out = c.row<std::byte>(target);
    const std::size_t slot = slot_bytes(target.width);
    for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
      const auto l = static_cast<std::size_t>(std::countr_zero(rest));
      load_element<kBytes, kSigned>(out + slot * l, slot, from + kBytes * e);
    }
  }
  return Action::next;
}

template <std::size_t kBytes>
Action store(Context& c, const Instruction& in, LaneMask lanes) {
  Context::Addresses addresses;
  Context::Pointers pointers;
  c.addresses(in.addresses[0], lanes, addresses);
  const U32 bytes = static_cast<U32>(kBytes) * in.elements;
  c.resolve(in, {in.space, AccessKind::write, bytes, bytes, Proxy::generic, false}, lanes,
            addresses, pointers);
  if (in.semantics != ir::Semantics::weak) std::atomic_thread_fence(std::memory_order_release);
  for (std::size_t e = 0; e < in.list.size(); ++e) {
    const auto* from = c.row<const std::byte>(in.list[e]);
    const std::size_t slot = slot_bytes(in.list[e].width);
    for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
      const auto l = static_cast<std::size_t>(std::countr_zero(rest));
      std::memcpy(pointers[l] + kBytes * e, from + slot * l, kBytes);
    }
  }
  return Action::next;
}

std::size_t vector_length(Decode& d) {
  return d.has("v2") ? 2 : d.has("v4") ? 4 : d.has("v8") ? 8 : 1;
}

/// A direct access to the kernel's parameter block; false for other addresses.
bool reads_parameters(Decode& d, std::size_t i, std::size_t bytes) {
  const ptx::Operand& o = d.operand(i);
  if (o.kind != ptx::Operand::Kind::address || o.items[0].kind != ptx::Operand::Kind::variable)
    return false;
  const ptx::Variable& v = *o.items[0].variable;
  if (v.space != ptx::StateSpace::param) return false;
  const U64 offset = o.bits;
  if (offset > v.bytes || v.bytes - offset < bytes)
    d.fail("access of " + std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
           " is beyond parameter '" + v.name + "' of " + std::to_string(v.bytes) + " bytes");
  if (v.alignment != 0 && offset % std::min<U64>(bytes, v.alignment) != 0)
    d.fail("misaligned access to parameter '" + v.name + "'");
  return true;
}

void bind_ld(Decode& d) {
  const Type type = d.type();
  const std::size_t count = vector_length(d);
  const auto bytes = static_cast<std::size_t>(ir::bit_size(type)) / 8;
  if (bytes * count > 32) d.unsupported("a load moves at most 32 bytes per thread");
  d.out.category = ir::Category::load;
  d.out.type = type;
  d.out.elements = static_cast<std::uint8_t>(count);
  d.out.space = d.space();
  d.memory_order(ir::Semantics::weak);
  if (d.has("mmio")) d.out.semantics = ir::Semantics::is_volatile;
  // A cache policy operand may follow.
  d.require_operands(2, 3);
  d.out.list = d.destinations(d.operand(0), type, count);
  const bool parameters = reads_parameters(d, 1, bytes * count);
  d.address(1);
  if (d.operand_count() == 3) d.source(2, Type::b64);
  const bool is_signed = ir::is_signed(type);
  const bool direct = parameters && d.out.space == ir::Space::param &&
                      d.operand(1).items[0].variable != nullptr &&
                      d.is_kernel_parameter(*d.operand(1).items[0].variable);
  switch (bytes) {
    case 1:
      d.out.handler = direct      ? (is_signed ? load_parameter<1, true> : load_parameter<1, false>)
                      : is_signed ? load<1, true>
                                  : load<1, false>;
      break;
    case 2:
      d.out.handler = direct      ? (is_signed ? load_parameter<2, true> : load_parameter<2, false>)
                      : is_signed ? load<2, true>
                                  : load<2, false>;
      break;
    case 4:
      d.out.handler = direct      ? (is_signed ? load_parameter<4, true> : load_parameter<4, false>)
                      : is_signed ? load<4, true>
                                  : load<4, false>;
      break;
    case 8:
      d.out.handler = direct ? load_parameter<8, false> : load<8, false>;
      break;
    default:
      d.out.handler = direct ? load_parameter<16, false> : load<16, false>;
      break;
  }
}

void bind_st(Decode& d) {
  const Type type = d.type();
  const std::size_t count = vector_length(d);
  const auto bytes = static_cast<std::size_t>(ir::bit_size(type)) / 8;
  if (bytes * count > 32) d.unsupported("a store moves at most 32 bytes per thread");
  d.out.category = ir::Category::store;
  d.out.type = type;
  d.out.elements = static_cast<std::uint8_t>(count);
  d.out.space = d.space();
  d.memory_order(ir::Semantics::weak);
  if (d.has("mmio")) d.out.semantics = ir::Semantics::is_volatile;
  d.require_operands(2, 3);
  reads_parameters(d, 0, bytes * count);
  d.address(0);
  d.out.list = d.sources(d.operand(1), type, count);
  if (d.operand_count() == 3) d.source(2, Type::b64);
  switch (bytes) {
    case 1:
      d.out.handler = store<1>;
      break;
    case 2:
      d.out.handler = store<2>;
      break;
    case 4:
      d.out.handler = store<4>;
      break;
    case 8:
      d.out.handler = store<8>;
      break;
    default:
      d.out.handler = store<16>;
      break;
  }
}

Action nothing(Context&, const Instruction&, LaneMask) {
  return Action::next;
}

void bind_prefetch(Decode& d) {
  d.out.category = ir::Category::other;
  d.require_operands(1, 2);
  d.address(0);
  if (d.operand_count() == 2) d.constant(1, 0, 128);
  d.out.handler = nothing;
}

constexpr ir::OpcodeRow kRows[] = {
    {"ld",
     "[weak|relaxed|acquire|volatile] [mmio] [@scope] [@space] [nc] [ca|cg|cs|lu|cv] [@evict1] "
     "[@evict2] [L2::cache_hint] [@prefetch] [unified] [v2|v4|v8] @memory",
     bind_ld, "cache operators, eviction hints and cache policies have no effect"},
    {"ldu", "[global] [v2|v4] @memory", bind_ld},
    {"st",
     "[weak|relaxed|release|volatile] [mmio] [@scope] [@space] [wb|cg|cs|wt] [@evict1] [@evict2] "
     "[L2::cache_hint] [v2|v4|v8] @memory",
     bind_st, "cache operators, eviction hints and cache policies have no effect"},
    {"prefetch", "[global|local|const|param] [L1|L2] [L2::evict_last|L2::evict_normal] [tensormap]",
     bind_prefetch, "no effect"},
    {"prefetchu", "L1", bind_prefetch, "no effect"},
    {"applypriority", "[global] L2::evict_normal", bind_prefetch, "no effect"},
    {"discard", "[global] L2", bind_prefetch, "no effect"},
};

}  // namespace

std::span<const ir::OpcodeRow> memory_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec
