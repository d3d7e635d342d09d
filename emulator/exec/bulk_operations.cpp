// Execution of bulk and tensor copies.
#include "exec/bulk_operations.hpp"

#include <mutex>
#include <stdexcept>

namespace ptxemu::exec {
namespace {

/// Reductions into global memory exclude each other across host threads.
std::mutex reduction_mutex;

/// Merges neighbours, so that observers hear of few ranges.
void add_range(std::vector<Access::Range>& ranges, std::uint64_t address, std::uint64_t bytes) {
  if (!ranges.empty() && ranges.back().address + ranges.back().bytes == address) {
    ranges.back().bytes += bytes;
  } else {
    ranges.push_back({address, bytes});
  }
}

}  // namespace

void BulkOperation::tell(Cluster& cluster, ir::Space space, Cta* owner, AccessKind kind,
                         std::span<const Access::Range> ranges, Proxy proxy) const {
  ClusterObserver* observer = cluster.observer();
  if (observer == nullptr || ranges.empty()) return;
  Access access;
  access.agent = agent;
  access.proxy = proxy;
  access.space = space;
  access.cta = owner != nullptr ? static_cast<std::uint8_t>(owner->rank) : 0;
  access.kind = kind;
  access.instruction = instruction;
  access.operation = id;
  access.ranges = ranges;
  observer->on_access(access);
}

void BulkOperation::complete_transactions(Cluster& cluster, const SharedTarget& target,
                                          std::uint32_t bytes) {
  cluster.finish(*this);
  for (std::uint32_t rest = target.ctas; rest != 0; rest &= rest - 1) {
    Cluster::MbarrierUpdate update;
    update.event = BarrierEvent::complete_tx;
    update.transactions = -std::int64_t{bytes};
    update.agent = agent;
    update.lanes = lanes;
    update.instruction = instruction;
    update.operation = id;
    cluster.update_mbarrier(cluster.cta(static_cast<std::uint32_t>(std::countr_zero(rest))),
                            target.barrier, update);
  }
}

void BulkOperation::check_shared(Cluster& cluster, std::uint64_t offset,
                                 std::uint64_t bytes) const {
  if (offset >= cluster.launch().kernel->shared_base && offset + bytes <= cta->shared.size())
    return;
  cluster.launch().fault(ReportKind::out_of_bounds, instruction,
                         "bulk copy of " + std::to_string(bytes) + " bytes at shared offset " +
                             std::to_string(offset) + " leaves the CTA's shared memory of " +
                             std::to_string(cta->shared.size()) + " bytes");
}

bool BulkLoad::step(Cluster& cluster) {
  Context context;
  context.enter(cluster, *this);
  if (bytes == 0) {
    complete_transactions(cluster, target, 0);
    return true;
  }
  check_shared(cluster, target.offset, bytes);
  const Access::Range from{source, bytes};
  const Access::Range to{target.offset, bytes};
  const std::byte* data = nullptr;
  if (from_shared) {
    check_shared(cluster, source, bytes);
    data = cta->shared.data() + source;
    tell(cluster, ir::Space::shared, cta, AccessKind::read, {&from, 1});
  } else {
    data = context.global_pointer(*instruction, source, bytes, AccessKind::read, lanes);
    tell(cluster, ir::Space::global, nullptr, AccessKind::read, {&from, 1});
  }
  cluster.finish_reads(*this);
  for (std::uint32_t rest = target.ctas; rest != 0; rest &= rest - 1) {
    Cta& owner = cluster.cta(static_cast<std::uint32_t>(std::countr_zero(rest)));
    std::byte* destination = owner.shared.data() + target.offset;
    if (reduction < 0) {
      std::memmove(destination, data, bytes);
    } else {
      tma::reduce(static_cast<tma::ReduceOp>(reduction), type, {destination, bytes}, {data, bytes});
    }
    tell(cluster, ir::Space::shared, &owner, reduction < 0 ? AccessKind::write : AccessKind::atomic,
         {&to, 1});
  }
  complete_transactions(cluster, target, bytes);
  return true;
}

bool BulkStore::step(Cluster& cluster) {
  Context context;
  context.enter(cluster, *this);
  if (staged.empty() && bytes != 0) {
    check_shared(cluster, source, bytes);
    const Access::Range from{source, bytes};
    tell(cluster, ir::Space::shared, cta, AccessKind::read, {&from, 1});
    staged.assign(cta->shared.data() + source, cta->shared.data() + source + bytes);
    cluster.finish_reads(*this);
    return false;
  }
  std::byte* to = bytes == 0 ? nullptr
                             : context.global_pointer(*instruction, destination, bytes,
                                                      AccessKind::write, lanes);
  const Access::Range range{destination, bytes};
  if (reduction >= 0) {
    const std::lock_guard lock(reduction_mutex);
    tma::reduce(static_cast<tma::ReduceOp>(reduction), type, {to, bytes}, staged, flush);
  } else if (byte_mask == 0xffff) {
    std::memcpy(to, staged.data(), bytes);
  } else {
    for (std::uint32_t i = 0; i < bytes; ++i) {
      if ((byte_mask >> (i % 16) & 1) != 0) to[i] = staged[i];
    }
  }
  tell(cluster, ir::Space::global, nullptr, reduction < 0 ? AccessKind::write : AccessKind::atomic,
       {&range, 1});
  cluster.finish(*this);
  return true;
}

tma::TensorMap TensorOperation::read_map(Cluster& cluster, Context& context) const {
  if (map_address % 64 != 0)
    cluster.launch().fault(ReportKind::misaligned, instruction,
                           "the tensor map's address is not a multiple of 64");
  tma::TensorMapBits bits;
  std::memcpy(
      bits.data(),
      context.global_pointer(*instruction, map_address, sizeof bits, AccessKind::read, lanes),
      sizeof bits);
  const Access::Range range{map_address, sizeof bits};
  tell(cluster, ir::Space::global, nullptr, AccessKind::read, {&range, 1}, Proxy::tensormap);
  try {
    tma::TensorMap map = tma::decode(bits);
    if (map.rank != rank)
      throw std::invalid_argument("the instruction is " + std::to_string(rank) +
                                  "-dimensional, the tensor map has rank " +
                                  std::to_string(map.rank));
    return map;
  } catch (const std::invalid_argument& problem) {
    cluster.launch().fault(ReportKind::bad_descriptor, instruction,
                           std::string("bad tensor map: ") + problem.what());
  }
}

std::vector<tma::BoxRun> TensorOperation::runs(Cluster& cluster, const tma::TensorMap& map,
                                               std::uint32_t shared,
                                               tma::Direction direction) const {
  std::vector<tma::BoxRun> result;
  try {
    if (!gather) {
      tma::append_box_runs(map, {coordinates.data(), rank}, shared, direction, result);
    } else {
      const std::uint32_t row = tma::box_bytes(map);
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::array<std::int32_t, 2> place{coordinates[0], coordinates[i + 1]};
        tma::append_box_runs(map, place, shared + i * row, direction, result);
      }
    }
  } catch (const std::invalid_argument& problem) {
    cluster.launch().fault(ReportKind::bad_descriptor, instruction, problem.what());
  }
  for (const tma::BoxRun& run : result) check_shared(cluster, run.shared_offset, run.bytes);
  return result;
}

bool TensorLoad::step(Cluster& cluster) {
  Context context;
  context.enter(cluster, *this);
  const tma::TensorMap map = read_map(cluster, context);
  const std::vector<tma::BoxRun> box = runs(cluster, map, target.offset, tma::Direction::load);
  std::vector<Access::Range> reads, writes, fills;
  const bool observed = cluster.observed();
  // All bytes into the first CTA, then the same to the others.
  Cta& first = cluster.cta(static_cast<std::uint32_t>(std::countr_zero(target.ctas)));
  const bool converts = map.type == tma::DataType::f32_ftz || map.type == tma::DataType::tf32 ||
                        map.type == tma::DataType::tf32_ftz;
  for (const tma::BoxRun& run : box) {
    std::byte* to = first.shared.data() + run.shared_offset;
    if (run.in_bounds) {
      std::memcpy(to,
                  context.global_pointer(*instruction, run.global_address, run.bytes,
                                         AccessKind::read, lanes),
                  run.bytes);
      if (converts) tma::convert_loaded(map.type, {to, run.bytes});
      if (observed) add_range(reads, run.global_address, run.bytes);
    } else {
      tma::fill_out_of_bounds(map, {to, run.bytes});
    }
    if (observed) add_range(run.in_bounds ? writes : fills, run.shared_offset, run.bytes);
  }
  tell(cluster, ir::Space::global, nullptr, AccessKind::read, reads);
  cluster.finish_reads(*this);
  for (std::uint32_t rest = target.ctas; rest != 0; rest &= rest - 1) {
    Cta& owner = cluster.cta(static_cast<std::uint32_t>(std::countr_zero(rest)));
    if (&owner != &first) {
      for (const tma::BoxRun& run : box)
        std::memcpy(owner.shared.data() + run.shared_offset,
                    first.shared.data() + run.shared_offset, run.bytes);
    }
    tell(cluster, ir::Space::shared, &owner, AccessKind::write, writes);
    tell(cluster, ir::Space::shared, &owner, AccessKind::write, fills);
  }
  complete_transactions(cluster, target, tma::box_bytes(map) * (gather ? 4 : 1));
  return true;
}

bool TensorStore::step(Cluster& cluster) {
  Context context;
  context.enter(cluster, *this);
  std::vector<Access::Range> ranges;
  if (staged_runs.empty()) {
    const tma::TensorMap map = read_map(cluster, context);
    type = map.type;
    if (reduction >= 0 && !tma::reduction_exists(static_cast<tma::ReduceOp>(reduction), type))
      cluster.launch().fault(ReportKind::bad_descriptor, instruction,
                             "the tensor map's element type does not have this reduction");
    staged_runs = runs(cluster, map, source, tma::Direction::store);
    for (const tma::BoxRun& run : staged_runs) {
      const std::byte* from = cta->shared.data() + run.shared_offset;
      staged.insert(staged.end(), from, from + run.bytes);
      // Parts that lie outside the tensor are not stored; that they are read does not matter.
      if (run.in_bounds && cluster.observed()) add_range(ranges, run.shared_offset, run.bytes);
    }
    tell(cluster, ir::Space::shared, cta, AccessKind::read, ranges);
    cluster.finish_reads(*this);
    return false;
  }
  std::size_t at = 0;
  for (const tma::BoxRun& run : staged_runs) {
    const std::span<const std::byte> data{staged.data() + at, run.bytes};
    at += run.bytes;
    if (!run.in_bounds) continue;
    std::byte* to = context.global_pointer(*instruction, run.global_address, run.bytes,
                                           AccessKind::write, lanes);
    if (reduction < 0) {
      std::memcpy(to, data.data(), run.bytes);
    } else {
      const std::lock_guard lock(reduction_mutex);
      tma::reduce(static_cast<tma::ReduceOp>(reduction), type, {to, run.bytes}, data);
    }
    if (cluster.observed()) add_range(ranges, run.global_address, run.bytes);
  }
  tell(cluster, ir::Space::global, nullptr, reduction < 0 ? AccessKind::write : AccessKind::atomic,
       ranges);
  cluster.finish(*this);
  return true;
}

}  // namespace ptxemu::exec
