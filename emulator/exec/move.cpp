// mov in all its forms, address conversion, cluster addresses.
#include <chrono>

#include "exec/cluster.hpp"
#include "exec/lanes.hpp"
#include "exec/opcodes.hpp"
#include "ir/kernel_builder.hpp"
#include "ir/special_registers.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Special;
using ir::Type;
using U32 = std::uint32_t;
using U64 = std::uint64_t;
using Kind = ptx::Operand::Kind;

template <typename T>
Action move(Context& c, const Instruction& in, LaneMask lanes) {
  const auto* a = c.row<const T>(in.a);
  auto* out = c.row<T>(in.d);
  if (lanes == kFullMask) {
    std::memmove(out, a, sizeof(T) * kWarpSize);
  } else {
    for (int l = 0; l < kWarpSize; ++l) out[l] = (lanes >> l & 1) != 0 ? a[l] : out[l];
  }
  return Action::next;
}

Action move_predicate(Context& c, const Instruction& in, LaneMask lanes) {
  c.set_predicate(in.d, lanes, c.predicate(in.a));
  return Action::next;
}

/// The address of a variable that depends on the thread, the CTA or the launch.
template <typename T>
Action move_address(Context& c, const Instruction& in, LaneMask lanes) {
  Context::Addresses addresses;
  c.addresses(in.addresses[0], lanes, addresses);
  auto* out = c.row<T>(in.d);
  // A local variable's own address is an offset in the local window.
  const U64 mask = in.addresses[0].relative_to == ir::AddressBase::frame && in.flags == 0
                       ? ~mem::kWindowMask
                       : ~U64{0};
  const U64 window = in.flags != 0 && in.addresses[0].relative_to == ir::AddressBase::own_shared
                         ? mem::kSharedWindow
                         : 0;
  for (std::size_t l = 0; l < kWarpSize; ++l) {
    if ((lanes >> l & 1) != 0) out[l] = static_cast<T>((addresses[l] & mask) | window);
  }
  return Action::next;
}

Action move_dynamic(Context& c, const Instruction& in, LaneMask lanes) {
  U64 value = 0;
  switch (static_cast<Special>(in.detail)) {
    case Special::clock:
    case Special::clock64:
      value = c.cluster->read_clock();
      break;
    case Special::clock_hi:
      value = c.cluster->read_clock() >> 32;
      break;
    case Special::globaltimer:
    case Special::globaltimer_lo:
    case Special::globaltimer_hi:
      value = static_cast<U64>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now() - c.launch->start)
                                   .count());
      if (static_cast<Special>(in.detail) == Special::globaltimer_hi) value >>= 32;
      break;
    default:
      break;
  }
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    if (in.d.width == ir::Width::bits64) {
      c.row<U64>(in.d)[l] = value;
    } else {
      c.row<U32>(in.d)[l] = static_cast<U32>(value);
    }
  }
  return Action::next;
}

Action move_is_explicit_cluster(Context& c, const Instruction& in, LaneMask lanes) {
  c.set_predicate(in.d, lanes, c.launch->config.cluster.count() > 1 ? kFullMask : 0);
  return Action::next;
}

// Packing and unpacking move bits between one register and several. The handler works on bytes:
// each element has `flags` bits, and slots of 4, 8 or 16 bytes.
std::size_t slot_bytes(ir::Width width) {
  return width == ir::Width::bits32 ? 4 : width == ir::Width::bits64 ? 8 : 16;
}

Action pack(Context& c, const Instruction& in, LaneMask lanes) {
  auto* out = c.row<std::byte>(in.d);
  const std::size_t out_slot = slot_bytes(in.d.width);
  const std::size_t bytes = in.flags / 8;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<std::size_t>(std::countr_zero(rest));
    std::array<std::byte, 16> value{};
    for (std::size_t i = 0; i < in.list.size(); ++i)
      std::memcpy(value.data() + i * bytes,
                  c.row<const std::byte>(in.list[i]) + l * slot_bytes(in.list[i].width), bytes);
    std::memcpy(out + l * out_slot, value.data(), out_slot);
  }
  return Action::next;
}

Action unpack(Context& c, const Instruction& in, LaneMask lanes) {
  const auto* from = c.row<const std::byte>(in.a);
  const std::size_t from_slot_bytes = slot_bytes(in.a.width);
  const std::size_t bytes = in.flags / 8;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<std::size_t>(std::countr_zero(rest));
    std::array<std::byte, 16> value{};
    std::memcpy(value.data(), from + l * from_slot_bytes, from_slot_bytes);
    for (std::size_t i = 0; i < in.list.size(); ++i) {
      const Operand& target = in.list[i];
      if (!target.present()) continue;
      const std::size_t slot = slot_bytes(target.width);
      std::array<std::byte, 16> element{};
      std::memcpy(element.data(), value.data() + i * bytes, bytes);
      std::memcpy(c.row<std::byte>(target) + l * slot, element.data(), slot);
    }
  }
  return Action::next;
}

Type element_type(Decode& d, int bits) {
  switch (bits) {
    case 8:
      return Type::b8;
    case 16:
      return Type::b16;
    case 32:
      return Type::b32;
    case 64:
      return Type::b64;
    default:
      d.fail("a vector of mov has 2 or 4 elements of 8 to 64 bits");
  }
}

void bind_vector_mov(Decode& d, Type type) {
  const bool packs = d.operand(1).kind == Kind::vector;
  const ptx::Operand& vector = packs ? d.operand(1) : d.operand(0);
  const std::size_t count = d.vector_size(vector);
  if (count != 2 && count != 4) d.fail("a vector of mov has 2 or 4 elements");
  const Type element = element_type(d, ir::bit_size(type) / static_cast<int>(count));
  d.out.flags = static_cast<U32>(ir::bit_size(element));
  if (packs) {
    if (d.operand(0).kind == Kind::vector) d.fail("mov cannot move a vector to a vector");
    d.out.d = d.destination(0, type);
    d.out.list = d.sources(vector, element, count);
    d.out.handler = pack;
  } else {
    d.out.a = d.source(1, type);
    d.out.list = d.destinations(vector, element, count);
    d.out.handler = unpack;
  }
}

/// Address of a variable that is not a constant of the decoded program.
bool bind_variable_address(Decode& d, std::size_t i, Type type, bool generic) {
  const ptx::Operand& o = d.operand(i);
  if (o.kind != Kind::variable) return false;
  const ptx::StateSpace space = o.variable->space;
  if (space == ptx::StateSpace::global || space == ptx::StateSpace::constant) return false;
  ptx::Operand address;
  address.kind = Kind::address;
  address.bits = o.bits;
  address.items.push_back(o);
  d.address(address);
  d.out.flags = generic ? 1 : 0;
  d.out.handler = ir::bit_size(type) == 64 ? move_address<U64> : move_address<U32>;
  return true;
}

void bind_mov(Decode& d) {
  d.require_operands(2, 2);
  const Type type = d.type();
  d.out.type = type;
  if (d.operand(0).kind == Kind::vector || d.operand(1).kind == Kind::vector)
    return bind_vector_mov(d, type);
  const ptx::Operand& source = d.operand(1);
  d.out.d = d.destination(0, type);
  const int bits = ir::bit_size(type);
  if (source.kind == Kind::special) {
    const Special special = ir::parse_special(source.name);
    if (special > Special::count && special != Special::unknown) {
      d.out.detail = static_cast<U32>(special);
      const bool predicate = special == Special::is_explicit_cluster;
      const bool wide = special == Special::clock64 || special == Special::globaltimer;
      if (predicate != (type == Type::pred) || (!predicate && wide != (bits == 64)))
        d.fail("special register '" + std::string(source.name) + "' has another width");
      d.out.handler = predicate ? move_is_explicit_cluster : move_dynamic;
      return;
    }
    if (bits == 64 && special == Special::gridid) {
      d.out.a = d.builder().constant(ir::Width::bits64, 1);
      d.out.handler = move<U64>;
      return;
    }
  }
  if (source.kind == Kind::function) {
    if (bits != 64) d.fail("a function's address has 64 bits");
    const U64 index = d.builder().function_index(source.name, d.statement().line);
    d.out.a = d.builder().constant(ir::Width::bits64, mem::kFunctionWindow + index * 16);
    d.out.handler = move<U64>;
    return;
  }
  if (bits >= 32 && bits <= 64 && bind_variable_address(d, 1, type, false)) return;
  d.out.a = d.source(1, type);
  d.out.handler = type == Type::pred ? move_predicate
                  : bits <= 32       ? move<U32>
                  : bits == 64       ? move<U64>
                                     : move<Bits128>;
}

/// cvta: adds or removes a window. `flags`: 1 to generic, 0 from generic.
template <typename T>
Action convert_address(Context& c, const Instruction& in, LaneMask lanes) {
  const auto* a = c.row<const T>(in.a);
  auto* out = c.row<T>(in.d);
  const bool shared = in.space == ir::Space::shared || in.space == ir::Space::shared_cluster;
  const U64 window = shared                         ? mem::kSharedWindow
                     : in.space == ir::Space::local ? mem::kLocalWindow
                                                    : 0;
  const U64 tag = in.space == ir::Space::shared ? c.cta->tag() : 0;
  const auto parameters = reinterpret_cast<U64>(c.launch->parameters);
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    U64 value = a[l];
    // Compilers keep a parameter's address in 32 bits: the low half of its place in the block.
    if (in.space == ir::Space::param && in.flags != 0 && value >> 32 == 0)
      value = parameters + static_cast<U32>(value - parameters);
    if (window != 0) {
      if (in.flags != 0) {
        value |= window;
        if (mem::rank_of(static_cast<U32>(value)) == 0) value |= tag;
      } else {
        value &= ~mem::kWindowMask;
      }
    }
    out[l] = static_cast<T>(value);
  }
  return Action::next;
}
void bind_cvta(Decode& d) {
  d.require_operands(2, 2);
  const Type type = d.type();
  d.out.type = type;
  d.out.space = d.space();
  d.out.d = d.destination(0, type);
  const bool to_generic = !d.has("to");
  if (to_generic && bind_variable_address(d, 1, type, true)) return;
  d.out.a = d.source(1, type);
  d.out.flags = to_generic ? 1 : 0;
  d.out.handler = type == Type::u64 ? convert_address<U64> : convert_address<U32>;
}

Action is_space(Context& c, const Instruction& in, LaneMask lanes) {
  const auto* a = c.row<const U64>(in.a);
  LaneMask result = 0;
  for (int l = 0; l < kWarpSize; ++l) {
    const U64 window = a[l] & mem::kWindowMask;
    bool holds = false;
    switch (in.space) {
      case ir::Space::shared:
        holds = window == mem::kSharedWindow && mem::rank_of(static_cast<U32>(a[l])) == c.cta->rank;
        break;
      case ir::Space::shared_cluster:
        holds = window == mem::kSharedWindow;
        break;
      case ir::Space::local:
        holds = window == mem::kLocalWindow;
        break;
      case ir::Space::param: {
        const auto begin = reinterpret_cast<U64>(c.launch->parameters);
        holds = a[l] >= begin && a[l] < begin + c.launch->kernel->info.parameter_bytes;
        break;
      }
      case ir::Space::constant: {
        const mem::Allocation* variable = c.launch->memory->find(a[l], 1);
        holds = variable != nullptr && variable->read_only && variable->owned &&
                variable->begin != reinterpret_cast<U64>(c.launch->parameters);
        break;
      }
      default:
        holds = window == 0;
        break;
    }
    result |= static_cast<LaneMask>(holds) << l;
  }
  c.set_predicate(in.d, lanes, result);
  return Action::next;
}
void bind_isspacep(Decode& d) {
  d.require_operands(2, 2);
  d.out.type = Type::pred;
  d.out.source_type = Type::u64;
  d.out.space = d.space();
  d.out.d = d.destination(0, Type::pred);
  d.out.a = d.source(1, Type::u64);
  d.out.handler = is_space;
}

/// mapa: the same place in another CTA of the cluster.
template <typename T>
Action map_address(Context& c, const Instruction& in, LaneMask lanes) {
  Context::Addresses from;
  c.addresses(in.addresses[0], lanes, from);
  const auto* rank = c.row<const U32>(in.b);
  auto* out = c.row<T>(in.d);
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<std::size_t>(std::countr_zero(rest));
    if (rank[l] >= c.cluster->cta_count())
      c.fault(ReportKind::out_of_bounds, in, LaneMask{1} << l,
              "mapa to CTA " + std::to_string(rank[l]) + " of a cluster of " +
                  std::to_string(c.cluster->cta_count()));
    const U64 window = in.space == ir::Space::generic ? from[l] & mem::kWindowMask : 0;
    if (in.space == ir::Space::generic && window != mem::kSharedWindow)
      c.fault(ReportKind::out_of_bounds, in, LaneMask{1} << l,
              "mapa of a generic address outside shared memory");
    out[l] = static_cast<T>(window | (U64{rank[l]} << mem::kRankShift) |
                            mem::offset_of(static_cast<U32>(from[l])));
  }
  return Action::next;
}
/// A register or variable as an address operand.
void address_of(Decode& d, std::size_t i) {
  ptx::Operand address;
  address.kind = Kind::address;
  address.bits = d.operand(i).bits;
  ptx::Operand base = d.operand(i);
  if (base.kind == Kind::reg || base.kind == Kind::variable) {
    if (base.kind == Kind::reg) address.bits = 0;
    address.items.push_back(std::move(base));
    d.address(address);
  } else {
    d.fail("expected a register or a variable");
  }
}
void bind_mapa(Decode& d) {
  d.require_operands(3, 3);
  const Type type = d.type();
  d.out.type = type;
  d.out.space = d.space();
  d.out.d = d.destination(0, type);
  address_of(d, 1);
  d.out.b = d.source(2, Type::u32);
  d.out.handler = type == Type::u64 ? map_address<U64> : map_address<U32>;
}

Action cta_rank_of(Context& c, const Instruction& in, LaneMask lanes) {
  Context::Addresses from;
  c.addresses(in.addresses[0], lanes, from);
  auto* out = c.row<U32>(in.d);
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<std::size_t>(std::countr_zero(rest));
    out[l] = mem::rank_of(static_cast<U32>(from[l]));
  }
  return Action::next;
}
void bind_getctarank(Decode& d) {
  d.require_operands(2, 2);
  d.out.type = Type::u32;
  d.out.space = d.space();
  d.out.d = d.destination(0, Type::u32);
  address_of(d, 1);
  d.out.handler = cta_rank_of;
}

constexpr ir::OpcodeRow kRows[] = {
    {"mov", "@scalar", bind_mov,
     "also packs and unpacks vectors, reads special registers, takes addresses"},
    {"cvta", "[to] @space u32|u64", bind_cvta},
    {"isspacep", "@space", bind_isspacep},
    {"mapa", "[shared::cluster] u32|u64", bind_mapa},
    {"getctarank", "[shared::cluster] u32|u64", bind_getctarank},
};

}  // namespace

std::span<const ir::OpcodeRow> move_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec
