// cp.async.bulk, cp.reduce.async.bulk and their tensor forms: issue and decoding.
#include "exec/bulk_operations.hpp"
#include "exec/groups.hpp"
#include "exec/opcodes.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Type;
using U32 = std::uint32_t;
using U64 = std::uint64_t;
using Kind = ptx::Operand::Kind;

// Instruction::flags.
constexpr U32 kMulticast = 1, kFromShared = 2, kByteMask = 4, kNoFlush = 8, kGather = 16;
// Instruction::detail: reduction + 1 in bits 0-7, tma::DataType in bits 8-15.
int reduction_of(const Instruction& in) {
  return static_cast<int>(in.detail & 255) - 1;
}
tma::DataType type_of(const Instruction& in) {
  return static_cast<tma::DataType>(in.detail >> 8 & 255);
}

template <typename F>
Action for_each_lane(LaneMask lanes, F f) {
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1)
    f(static_cast<std::size_t>(std::countr_zero(rest)), rest & (0 - rest));
  return Action::next;
}

/// Destination and barrier of a load; the multicast mask is operand c.
SharedTarget shared_target(Context& c, const Instruction& in, LaneMask lane,
                           std::size_t barrier_index, U32 alignment) {
  const auto l = static_cast<std::size_t>(std::countr_zero(lane));
  const auto place =
      c.shared_place(in, in.space, c.address(in.addresses[0], lane), 1, alignment, lane);
  const auto barrier = c.shared_place(in, ir::Space::shared_cluster,
                                      c.address(in.addresses[barrier_index], lane), 8, 8, lane);
  SharedTarget target;
  target.ctas = 1u << place.cta->rank;
  target.offset = place.offset;
  target.barrier = barrier.offset;
  if ((in.flags & kMulticast) != 0) {
    target.ctas = c.row<const U32>(in.c)[l] & 0xffff;
    if (target.ctas == 0 || target.ctas >> c.cluster->cta_count() != 0)
      c.fault(ReportKind::illegal_instruction, in, lane,
              "the multicast mask " + std::to_string(target.ctas) +
                  " does not name CTAs of the cluster of " +
                  std::to_string(c.cluster->cta_count()));
  } else if (barrier.cta != place.cta) {
    c.fault(ReportKind::barrier_protocol, in, lane,
            "the barrier of a bulk copy must lie in the CTA of the destination");
  }
  c.cluster->load_mbarrier(*barrier.cta, barrier.offset, &in);
  return target;
}

U32 checked_size(Context& c, const Instruction& in, LaneMask lane) {
  const U32 bytes = c.uniform(in.a, lane);
  if (bytes % 16 != 0 || bytes > mem::kOffsetMask)
    c.fault(
        ReportKind::misaligned, in, lane,
        "the size of a bulk copy, " + std::to_string(bytes) + " bytes, is not a multiple of 16");
  return bytes;
}
void check_global(Context& c, const Instruction& in, LaneMask lane, U64 address) {
  if (address % 16 != 0)
    c.fault(ReportKind::misaligned, in, lane,
            "the global address of a bulk copy is not a multiple of 16");
}

Action bulk_load(Context& c, const Instruction& in, LaneMask lanes) {
  return for_each_lane(lanes, [&](std::size_t, LaneMask lane) {
    auto op = c.cluster->make_operation<BulkLoad>(c, in, lane, AgentKind::bulk_copy,
                                                  Completion::mbarrier);
    op->target = shared_target(c, in, lane, 2, 16);
    op->bytes = checked_size(c, in, lane);
    op->source = c.address(in.addresses[1], lane);
    op->reduction = reduction_of(in);
    op->type = type_of(in);
    op->from_shared = (in.flags & kFromShared) != 0;
    if (op->from_shared) {
      op->source =
          c.shared_place(in, ir::Space::shared, op->source, std::max(op->bytes, 1u), 16, lane)
              .offset;
    } else {
      check_global(c, in, lane, op->source);
    }
    c.cluster->issue(std::move(op));
  });
}

Action bulk_store(Context& c, const Instruction& in, LaneMask lanes) {
  return for_each_lane(lanes, [&](std::size_t, LaneMask lane) {
    auto op = c.cluster->make_operation<BulkStore>(c, in, lane, AgentKind::bulk_copy,
                                                   Completion::bulk_group);
    op->destination = c.address(in.addresses[0], lane);
    check_global(c, in, lane, op->destination);
    op->bytes = checked_size(c, in, lane);
    op->source = c.shared_place(in, ir::Space::shared, c.address(in.addresses[1], lane),
                                std::max(op->bytes, 1u), 16, lane)
                     .offset;
    op->reduction = reduction_of(in);
    op->type = type_of(in);
    op->flush = (in.flags & kNoFlush) == 0;
    if ((in.flags & kByteMask) != 0) op->byte_mask = c.uniform(in.c, lane) & 0xffff;
    c.warp->bulk.add(op->id, lane);
    c.cluster->issue(std::move(op));
  });
}

void fill_tensor(Context& c, const Instruction& in, LaneMask lane, TensorOperation& op,
                 std::size_t map_index) {
  op.map_address = c.address(in.addresses[map_index], lane);
  op.rank = in.elements;
  op.gather = (in.flags & kGather) != 0;
  for (std::size_t i = 0; i < in.list.size(); ++i)
    op.coordinates[i] = static_cast<std::int32_t>(c.uniform(in.list[i], lane));
}
Action tensor_load(Context& c, const Instruction& in, LaneMask lanes) {
  return for_each_lane(lanes, [&](std::size_t, LaneMask lane) {
    auto op = c.cluster->make_operation<TensorLoad>(c, in, lane, AgentKind::bulk_copy,
                                                    Completion::mbarrier);
    op->target = shared_target(c, in, lane, 2, 128);
    fill_tensor(c, in, lane, *op, 1);
    c.cluster->issue(std::move(op));
  });
}
Action tensor_store(Context& c, const Instruction& in, LaneMask lanes) {
  return for_each_lane(lanes, [&](std::size_t, LaneMask lane) {
    auto op = c.cluster->make_operation<TensorStore>(c, in, lane, AgentKind::bulk_copy,
                                                     Completion::bulk_group);
    op->source =
        c.shared_place(in, ir::Space::shared, c.address(in.addresses[1], lane), 1, 128, lane)
            .offset;
    op->reduction = reduction_of(in);
    fill_tensor(c, in, lane, *op, 0);
    c.warp->bulk.add(op->id, lane);
    c.cluster->issue(std::move(op));
  });
}
Action nothing(Context&, const Instruction&, LaneMask) {
  return Action::next;
}

Action bulk_commit(Context& c, const Instruction& in, LaneMask lanes) {
  commit_group(c, in, lanes, GroupKind::bulk);
  return Action::next;
}
Action bulk_wait(Context& c, const Instruction& in, LaneMask lanes) {
  return wait_group(c, in, lanes, GroupKind::bulk, static_cast<U32>(in.immediate), in.flags != 0);
}

void bind_reduction(Decode& d, bool tensor) {
  static constexpr std::string_view kOps[] = {"add", "min", "max", "inc",
                                              "dec", "and", "or",  "xor"};
  for (U32 i = 0; i < std::size(kOps); ++i) {
    if (d.has(kOps[i])) d.out.detail = i + 1;
  }
  if (tensor) return;
  using tma::DataType;
  DataType type{};
  switch (d.type()) {
    case Type::f16:
      type = DataType::f16;
      break;
    case Type::bf16:
      type = DataType::bf16;
      break;
    case Type::f32:
      type = DataType::f32;
      break;
    case Type::f64:
      type = DataType::f64;
      break;
    case Type::b32:
    case Type::u32:
      type = DataType::u32;
      break;
    case Type::s32:
      type = DataType::s32;
      break;
    case Type::b64:
    case Type::u64:
      type = DataType::u64;
      break;
    case Type::s64:
      type = DataType::s64;
      break;
    default:
      d.unsupported("type ." + std::string(ir::to_string(d.type())) + " has no bulk reduction");
  }
  d.out.type = d.type();
  const bool half = d.type() == Type::f16 || d.type() == Type::bf16;
  if (half && d.has("add") && !d.has("noftz")) d.fail("f16 and bf16 .add need .noftz");
  if (d.has("noftz")) d.out.flags |= kNoFlush;
  d.out.detail |= static_cast<U32>(type) << 8;
}

/// The operands after the barrier: multicast mask, cache policy.
void bind_tail(Decode& d, std::size_t next) {
  if (d.has("multicast::cluster")) {
    d.out.flags |= kMulticast;
    d.out.c = d.wide_source(d.operand(next++), Type::b16);
  }
  if (d.has("cp_mask")) {
    d.out.flags |= kByteMask;
    d.out.c = d.wide_source(d.operand(d.operand_count() - 1), Type::b16);
  }
  if (d.has("L2::cache_hint")) d.source(next++, Type::b64);
  if (d.has("cp_mask")) ++next;
  d.require_operands(next, next);
}

/// State spaces of a copy in the order of the text: destination, source.
std::pair<std::string_view, std::string_view> spaces(Decode& d) {
  std::vector<std::string_view> found;
  for (const std::string_view m : d.modifiers) {
    if (m == "global" || m == "shared::cta" || m == "shared::cluster") found.push_back(m);
  }
  if (found.size() != 2) d.fail("needs a destination and a source state space");
  return {found[0], found[1]};
}

template <bool kReduce>
void bind_bulk(Decode& d) {
  d.out.category = ir::Category::async_copy;
  if (kReduce) bind_reduction(d, false);
  const auto [to, from] = spaces(d);
  d.address(0);
  d.address(1);
  d.out.a = d.source(2, Type::u32);
  if (to == "global") {
    if (from != "shared::cta" || !d.has("bulk_group"))
      d.fail("a copy to global memory is .global.shared::cta.bulk_group");
    bind_tail(d, 3);
    d.out.handler = bulk_store;
    return;
  }
  if (!d.has("mbarrier::complete_tx::bytes"))
    d.fail("a copy to shared memory completes by .mbarrier::complete_tx::bytes");
  d.out.space = to == "shared::cta" ? ir::Space::shared : ir::Space::shared_cluster;
  if (from != "global") d.out.flags |= kFromShared;
  d.address(3);
  bind_tail(d, 4);
  d.out.handler = bulk_load;
}

void bind_map(Decode& d, std::size_t i) {
  const ptx::Operand& o = d.operand(i);
  if (o.kind != Kind::address || o.items.size() < 2 || o.items[1].kind != Kind::vector)
    d.fail("expected [tensor map, {coordinates}]");
  if (o.items.size() > 2) d.unsupported("im2col offsets are not supported");
  d.address(i);
  static constexpr std::string_view kRanks[] = {"1d", "2d", "3d", "4d", "5d"};
  for (std::uint8_t r = 0; r < 5; ++r) {
    if (d.has(kRanks[r])) d.out.elements = static_cast<std::uint8_t>(r + 1);
  }
  const bool gather = d.has("tile::gather4");
  if (gather) {
    if (d.out.elements != 2) d.fail(".tile::gather4 is two-dimensional");
    d.out.flags |= kGather;
  }
  d.out.list = d.sources(o.items[1], Type::s32, gather ? 5 : d.out.elements);
}

template <bool kReduce>
void bind_tensor(Decode& d) {
  d.out.category = ir::Category::async_copy;
  if (kReduce) bind_reduction(d, true);
  const auto [to, from] = spaces(d);
  if (to == "global") {
    if (from != "shared::cta" || !d.has("bulk_group"))
      d.fail("a store is .global.shared::cta.bulk_group");
    if (d.has("tile::gather4")) d.unsupported("stores have no .tile::gather4");
    bind_map(d, 0);
    d.address(1);
    bind_tail(d, 2);
    d.out.handler = tensor_store;
    return;
  }
  if (kReduce || from != "global" || !d.has("mbarrier::complete_tx::bytes"))
    d.fail("a load is .shared::cluster.global.mbarrier::complete_tx::bytes");
  d.out.space = to == "shared::cta" ? ir::Space::shared : ir::Space::shared_cluster;
  d.address(0);
  bind_map(d, 1);
  d.address(2);
  bind_tail(d, 3);
  d.out.handler = tensor_load;
}
void bind_prefetch(Decode& d) {
  d.out.category = ir::Category::other;
  d.address(0);
  d.source(1, Type::u32);
  d.out.handler = nothing;
}
void bind_prefetch_tensor(Decode& d) {
  d.out.category = ir::Category::other;
  bind_map(d, 0);
  bind_tail(d, 1);
  d.out.handler = nothing;
}
void bind_commit(Decode& d) {
  d.require_operands(0, 0);
  d.out.category = ir::Category::async_group;
  d.out.handler = bulk_commit;
}
void bind_wait(Decode& d) {
  d.require_operands(1, 1);
  d.out.category = ir::Category::async_group;
  d.out.flags = d.has("read") ? 1 : 0;
  d.out.immediate = d.constant(0, 0, 1 << 20);
  d.out.handler = bulk_wait;
}

constexpr ir::OpcodeRow kRows[] = {
    {"cp.async.bulk",
     "global|shared::cta|shared::cluster+ mbarrier::complete_tx::bytes|bulk_group "
     "[multicast::cluster] [L2::cache_hint] [cp_mask]",
     bind_bulk<false>},
    {"cp.reduce.async.bulk",
     "global|shared::cta|shared::cluster+ mbarrier::complete_tx::bytes|bulk_group [L2::cache_hint] "
     "add|min|max|inc|dec|and|or|xor [noftz] f16|bf16|b32|u32|s32|b64|u64|s64|f32|f64",
     bind_bulk<true>},
    {"cp.async.bulk.tensor",
     "1d|2d|3d|4d|5d global|shared::cta|shared::cluster+ [tile|tile::gather4] "
     "mbarrier::complete_tx::bytes|bulk_group "
     "[multicast::cluster] [cta_group::1] [L2::cache_hint]",
     bind_tensor<false>, "tiled maps without interleave; no im2col"},
    {"cp.reduce.async.bulk.tensor",
     "1d|2d|3d|4d|5d global|shared::cta+ add|min|max|inc|dec|and|or|xor [tile] bulk_group "
     "[L2::cache_hint]",
     bind_tensor<true>},
    {"cp.async.bulk.prefetch", "L2 global [L2::cache_hint]", bind_prefetch, "no effect"},
    {"cp.async.bulk.prefetch.tensor",
     "1d|2d|3d|4d|5d L2 global [tile|tile::gather4] [L2::cache_hint]", bind_prefetch_tensor,
     "no effect"},
    {"cp.async.bulk.commit_group", "", bind_commit},
    {"cp.async.bulk.wait_group", "[read]", bind_wait},
};

}  // namespace

std::span<const ir::OpcodeRow> bulk_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec
