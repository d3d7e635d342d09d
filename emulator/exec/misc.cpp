// setmaxnreg, programmatic launch, timing, cache policies, tensor-map replacement.
#include "exec/cluster.hpp"
#include "exec/lanes.hpp"
#include "exec/opcodes.hpp"
#include "tma/tensor_map.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Type;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

Action set_max_registers(Context& c, const Instruction& in, LaneMask lanes) {
  if (!c.converge_warp(in, lanes, true)) return Action::block;
  c.warp->register_limit = static_cast<U32>(in.immediate);
  if (c.observer != nullptr)
    c.observer->on_register_limit(c.cta->rank, c.warp->index, c.warp->register_limit, in);
  return Action::next;
}
void bind_setmaxnreg(Decode& d) {
  d.require_operands(1, 1);
  d.out.category = ir::Category::other;
  d.out.immediate = d.constant(0, 24, 256);
  d.out.flags = d.has("inc") ? 1 : 0;
  if (d.out.immediate % 8 != 0) d.fail("setmaxnreg needs a multiple of 8");
  d.out.handler = set_max_registers;
}

Action nothing(Context&, const Instruction&, LaneMask) {
  return Action::next;
}
/// Grids run one after the other, so earlier grids are always complete.
void bind_griddepcontrol(Decode& d) {
  d.require_operands(0, 0);
  d.out.category = ir::Category::other;
  d.out.handler = nothing;
}

Action sleep(Context& c, const Instruction&, LaneMask) {
  c.split->state = SplitState::sleeping;
  return Action::yield;
}
void bind_nanosleep(Decode& d) {
  d.require_operands(1, 1);
  d.out.category = ir::Category::other;
  d.out.a = d.source(0, Type::u32);
  d.out.handler = sleep;
}

/// A policy is opaque and has no effect; zero will do.
Action make_policy(Context& c, const Instruction& in, LaneMask lanes) {
  auto* out = c.row<U64>(in.d);
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) out[std::countr_zero(rest)] = 0;
  return Action::next;
}
void bind_createpolicy(Decode& d) {
  d.out.category = ir::Category::other;
  d.require_operands(1, 4);
  d.out.d = d.destination(0, Type::b64);
  for (std::size_t i = 1; i < d.operand_count(); ++i) {
    if (d.is_address(i)) {
      d.address(i);
    } else {
      d.source(i, Type::b32);
    }
  }
  d.out.handler = make_policy;
}

/// tensormap.replace on a map in global or shared memory.
Action replace_field(Context& c, const Instruction& in, LaneMask lanes) {
  Context::Addresses addresses;
  Context::Pointers pointers;
  c.addresses(in.addresses[0], lanes, addresses);
  c.resolve(in, {in.space, AccessKind::atomic, 128, 64, Proxy::tensormap}, lanes, addresses,
            pointers);
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<std::size_t>(std::countr_zero(rest));
    const U64 value =
        in.a.width == ir::Width::bits64 ? c.row<const U64>(in.a)[l] : c.row<const U32>(in.a)[l];
    tma::TensorMapBits bits;
    std::memcpy(bits.data(), pointers[l], sizeof bits);
    tma::replace(bits, static_cast<tma::MapField>(in.flags), static_cast<unsigned>(in.immediate),
                 value);
    std::memcpy(pointers[l], bits.data(), sizeof bits);
  }
  return Action::next;
}
void bind_replace(Decode& d) {
  d.out.category = ir::Category::other;
  d.out.space = d.space();
  static constexpr std::string_view kFields[] = {
      "global_address", "rank",     "box_dim",           "global_dim",   "global_stride",
      "element_stride", "elemtype", "interleave_layout", "swizzle_mode", "fill_mode"};
  for (U32 i = 0; i < std::size(kFields); ++i) {
    if (d.has(kFields[i])) d.out.flags = i;
  }
  const auto field = static_cast<tma::MapField>(d.out.flags);
  const bool wide = field == tma::MapField::global_address || field == tma::MapField::global_stride;
  const bool indexed = d.out.flags >= 2 && d.out.flags <= 5;
  d.require_operands(indexed ? 3 : 2, indexed ? 3 : 2);
  d.address(0);
  if (indexed) d.out.immediate = d.constant(1, 0, 4);
  const Type type = d.types().size() > 1 ? d.type(1) : d.has("b64") ? Type::b64 : Type::b32;
  if (wide != (type == Type::b64))
    d.fail("this field has type ." + std::string(wide ? "b64" : "b32"));
  d.out.a = d.source(indexed ? 2 : 1, type);
  d.out.handler = replace_field;
}

/// tensormap.cp_fenceproxy: copies a map from shared to global memory and orders it for the
/// tensormap proxy.
Action copy_map(Context& c, const Instruction& in, LaneMask lanes) {
  if (!c.converge_warp(in, lanes, false)) return Action::block;
  const LaneMask lane = lanes & (0 - lanes);  // one copy for the warp
  Context::Addresses to, from;
  Context::Pointers target, source;
  c.addresses(in.addresses[0], lane, to);
  c.addresses(in.addresses[1], lane, from);
  c.resolve(in, {ir::Space::shared, AccessKind::read, 128, 128}, lane, from, source);
  c.resolve(in, {ir::Space::global, AccessKind::write, 128, 128}, lane, to, target);
  const auto l = static_cast<std::size_t>(std::countr_zero(lane));
  std::memcpy(target[l], source[l], 128);
  if (c.observer != nullptr) {
    FenceEvent event;
    event.kind = FenceKind::proxy_tensormap_release;
    event.agent = c.agent();
    event.lanes = lanes;
    event.space = ir::Space::global;
    event.semantics = ir::Semantics::release;
    event.scope = in.scope;
    event.instruction = &in;
    c.observer->on_fence(event);
  }
  return Action::next;
}
void bind_copy_map(Decode& d) {
  d.require_operands(3, 3);
  d.out.category = ir::Category::other;
  d.memory_order(ir::Semantics::release);
  d.address(0);
  d.address(1);
  d.constant(2, 128, 128);
  d.out.handler = copy_map;
}

constexpr ir::OpcodeRow kRows[] = {
    {"setmaxnreg", "inc|dec sync aligned u32", bind_setmaxnreg},
    {"griddepcontrol", "launch_dependents|wait", bind_griddepcontrol,
     "grids run one after the other: no effect"},
    {"nanosleep", "u32", bind_nanosleep, "lets other threads run; no time passes"},
    {"createpolicy.fractional",
     "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged+ b64", bind_createpolicy,
     "policies have no effect"},
    {"createpolicy.range",
     "[global] L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged+ b64",
     bind_createpolicy, "policies have no effect"},
    {"createpolicy.cvt", "L2 b64", bind_createpolicy, "policies have no effect"},
    {"tensormap.replace",
     "tile "
     "global_address|rank|box_dim|global_dim|global_stride|element_stride|elemtype|interleave_"
     "layout|swizzle_mode|fill_mode "
     "[global|shared::cta] [b1024] b32|b64",
     bind_replace},
    {"tensormap.cp_fenceproxy",
     "global shared::cta [tensormap::generic] [release] [@scope] sync aligned", bind_copy_map},
};

}  // namespace

std::span<const ir::OpcodeRow> misc_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec
