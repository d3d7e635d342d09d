// Address resolution: from lane addresses to checked host memory.
#include <cstdio>

#include "exec/cluster.hpp"

namespace ptxemu::exec {
namespace {

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string_view verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::read:
      return "read";
    case AccessKind::write:
      return "write";
    case AccessKind::atomic:
      return "atomic access";
  }
  return "access";
}

}  // namespace

void Context::enter(Cluster& cluster_in, Warp& warp_in, Split& split_in) {
  cluster = &cluster_in;
  launch = &cluster_in.launch();
  warp = &warp_in;
  cta = warp_in.cta;
  split = &split_in;
  observer = cluster_in.observer();
  banks_ = {warp_in.registers, const_cast<std::byte*>(launch->kernel->constants.data()),
            warp_in.specials, scratch_.data()};
}

void Context::enter(Cluster& cluster_in, const AsyncOperation& operation) {
  static thread_local Split none;
  enter(cluster_in, *operation.warp, none);
}

void Context::addresses(const ir::Address& address, LaneMask lanes, Addresses& out) const {
  (void)lanes;
  std::uint64_t base = static_cast<std::uint64_t>(address.offset);
  switch (address.relative_to) {
    case ir::AddressBase::absolute:
      break;
    case ir::AddressBase::frame:
      base += mem::kLocalWindow + split->frame;
      break;
    case ir::AddressBase::parameters:
      base += reinterpret_cast<std::uint64_t>(launch->parameters);
      break;
    case ir::AddressBase::own_shared:
      base += cta->tag();
      break;
  }
  if (!address.base.present()) {
    out.fill(base);
  } else if (address.base.width == ir::Width::bits64) {
    const auto* value = row<const std::uint64_t>(address.base);
    for (std::size_t l = 0; l < kWarpSize; ++l) out[l] = value[l] + base;
  } else {
    // 32-bit addresses wrap at 32 bits.
    const auto* value = row<const std::uint32_t>(address.base);
    const auto offset = static_cast<std::uint32_t>(base);
    for (std::size_t l = 0; l < kWarpSize; ++l) out[l] = value[l] + offset;
  }
}

std::uint64_t Context::address(const ir::Address& address, LaneMask lane) const {
  Addresses all;
  addresses(address, lane, all);
  return all[static_cast<std::size_t>(std::countr_zero(lane))];
}

std::byte* Context::global_pointer(const Instruction& in, std::uint64_t address,
                                   std::uint64_t bytes, AccessKind kind, LaneMask lanes) {
  const mem::Allocation* a = last_allocation_;
  if (a == nullptr || !a->contains(address, bytes)) {
    a = launch->memory->find(address, bytes);
    if (a == nullptr)
      fault(ReportKind::out_of_bounds, in, lanes,
            "global " + std::string(verb(kind)) + " of " + std::to_string(bytes) +
                " bytes out of bounds: " + launch->memory->describe(address));
    last_allocation_ = a;
  }
  if (kind != AccessKind::read && a->read_only)
    fault(ReportKind::out_of_bounds, in, lanes,
          "write to read-only memory " + launch->memory->describe(address));
  return reinterpret_cast<std::byte*>(address);
}

Context::SharedPlace Context::shared_place(const Instruction& in, ir::Space space,
                                           std::uint64_t address, std::uint32_t bytes,
                                           std::uint32_t alignment, LaneMask lane) {
  if (space == ir::Space::generic) {
    if ((address & mem::kWindowMask) != mem::kSharedWindow)
      fault(ReportKind::out_of_bounds, in, lane,
            "generic address " + hex(address) + " is not in shared memory");
    space = ir::Space::shared_cluster;
  }
  const auto low = static_cast<std::uint32_t>(address);
  std::uint32_t rank = mem::rank_of(low);
  if (space == ir::Space::shared) {
    if (rank != 0 && rank != cta->rank)
      fault(ReportKind::out_of_bounds, in, lane,
            "shared::cta address " + hex(low) + " lies in CTA " + std::to_string(rank) +
                " of the cluster; use .shared::cluster");
    rank = cta->rank;
  }
  if (rank >= cluster->cta_count())
    fault(ReportKind::out_of_bounds, in, lane,
          "shared address " + hex(low) + " names CTA " + std::to_string(rank) +
              " of a cluster of " + std::to_string(cluster->cta_count()));
  Cta& owner = cluster->cta(rank);
  const std::uint32_t offset = mem::offset_of(low);
  if (offset % alignment != 0)
    fault(ReportKind::misaligned, in, lane,
          "shared address " + hex(low) + " is not a multiple of " + std::to_string(alignment));
  if (offset < launch->kernel->shared_base || offset + std::uint64_t{bytes} > owner.shared.size())
    fault(ReportKind::out_of_bounds, in, lane,
          "shared access of " + std::to_string(bytes) + " bytes at " + hex(offset) +
              " is outside the CTA's shared memory [" + hex(launch->kernel->shared_base) + ", " +
              hex(owner.shared.size()) + ")");
  if (&owner != cta && owner.live_threads == 0)
    fault(ReportKind::out_of_bounds, in, lane,
          "shared memory of CTA " + std::to_string(rank) +
              " is accessed after that CTA has exited; a cluster barrier before its exit keeps it "
              "alive");
  return {&owner, offset};
}

void Context::resolve(const Instruction& in, const Request& request, LaneMask lanes,
                      const Addresses& addresses, Pointers& pointers) {
  const std::uint32_t alignment = request.alignment != 0 ? request.alignment : request.bytes;
  // Lanes of a generic access may lie in different spaces; observers hear one access per space and
  // CTA.
  Addresses places{};
  LaneMask shared_lanes = 0, global_lanes = 0, local_lanes = 0;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<std::size_t>(std::countr_zero(rest));
    const LaneMask lane = LaneMask{1} << l;
    const std::uint64_t a = addresses[l];
    ir::Space space = request.space;
    if (space == ir::Space::generic || space == ir::Space::param) {
      const std::uint64_t window = a & mem::kWindowMask;
      space = window == 0                   ? ir::Space::global
              : window == mem::kLocalWindow ? ir::Space::local
                                            : ir::Space::shared_cluster;
      if (space == ir::Space::shared_cluster && window != mem::kSharedWindow)
        fault(ReportKind::out_of_bounds, in, lane, "address " + hex(a) + " belongs to no memory");
    }
    switch (space) {
      case ir::Space::shared:
      case ir::Space::shared_cluster: {
        const SharedPlace place = shared_place(in, space, a, request.bytes, alignment, lane);
        pointers[l] = place.pointer();
        places[l] = std::uint64_t{place.cta->rank} << 32 | place.offset;
        shared_lanes |= lane;
        break;
      }
      case ir::Space::local: {
        std::vector<std::byte>& memory = warp->local[l];
        const std::uint64_t offset = a & ~mem::kWindowMask;
        if (offset % alignment != 0)
          fault(ReportKind::misaligned, in, lane,
                "local address " + hex(offset) + " is not a multiple of " +
                    std::to_string(alignment));
        if (offset + request.bytes > memory.size() || offset + request.bytes < offset)
          fault(ReportKind::out_of_bounds, in, lane,
                "local access at " + hex(offset) + " is outside the thread's " +
                    std::to_string(memory.size()) + " bytes of local memory");
        pointers[l] = memory.data() + offset;
        places[l] = offset;
        local_lanes |= lane;
        break;
      }
      default:
        if (a % alignment != 0)
          fault(ReportKind::misaligned, in, lane,
                "global address " + hex(a) + " is not a multiple of " + std::to_string(alignment));
        pointers[l] = global_pointer(in, a, request.bytes, request.kind, lane);
        places[l] = a;
        global_lanes |= lane;
    }
  }
  if (observer == nullptr) return;
  Access access;
  access.agent = agent();
  access.proxy = request.proxy;
  access.kind = request.kind;
  access.semantics = in.semantics;
  access.scope = in.scope;
  access.instruction = &in;
  access.bytes = request.bytes;
  access.to_registers = request.to_registers;
  access.cta = static_cast<std::uint8_t>(cta->rank);
  const auto tell = [&](ir::Space space, LaneMask mask, const Addresses& where) {
    access.space = space;
    access.lanes = mask;
    access.addresses = where;
    observer->on_access(access);
  };
  if (global_lanes != 0) tell(ir::Space::global, global_lanes, places);
  if (local_lanes != 0) tell(ir::Space::local, local_lanes, places);
  while (shared_lanes != 0) {
    const auto rank = static_cast<std::uint32_t>(
        places[static_cast<std::size_t>(std::countr_zero(shared_lanes))] >> 32);
    LaneMask mask = 0;
    Addresses offsets{};
    for (LaneMask rest = shared_lanes; rest != 0; rest &= rest - 1) {
      const auto l = static_cast<std::size_t>(std::countr_zero(rest));
      if (places[l] >> 32 != rank) continue;
      mask |= LaneMask{1} << l;
      offsets[l] = static_cast<std::uint32_t>(places[l]);
    }
    access.cta = static_cast<std::uint8_t>(rank);
    tell(ir::Space::shared, mask, offsets);
    shared_lanes &= ~mask;
  }
}

}  // namespace ptxemu::exec
