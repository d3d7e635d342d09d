// The copy engine's work: bulk copies and tensor-map copies as asynchronous operations.
#pragma once

#include "exec/cluster.hpp"
#include "tma/box.hpp"
#include "tma/reduce.hpp"

namespace ptxemu::exec {

/// Where results of a load go: the same offset in every CTA of `ctas`, then the barrier beside it.
struct SharedTarget {
  std::uint32_t ctas = 0;  ///< bit r = CTA of rank r
  std::uint32_t offset = 0;
  std::uint32_t barrier = 0;  ///< offset in each of the CTAs
};

struct BulkOperation : AsyncOperation {
 protected:
  void tell(Cluster& cluster, ir::Space space, Cta* owner, AccessKind kind,
            std::span<const Access::Range> ranges, Proxy proxy = Proxy::async) const;
  void complete_transactions(Cluster& cluster, const SharedTarget& target, std::uint32_t bytes);
  void check_shared(Cluster& cluster, std::uint64_t offset, std::uint64_t bytes) const;
};

/// cp.async.bulk to shared memory, from global memory or from the own CTA.
struct BulkLoad final : BulkOperation {
  SharedTarget target;
  std::uint64_t source = 0;  ///< global address, or offset in the own CTA
  bool from_shared = false;
  std::uint32_t bytes = 0;
  int reduction = -1;  ///< ReduceOp of cp.reduce, else -1
  tma::DataType type = tma::DataType::u8;
  bool step(Cluster& cluster) override;
};

/// cp.async.bulk and cp.reduce.async.bulk from shared to global memory.
struct BulkStore final : BulkOperation {
  std::uint64_t destination = 0;
  std::uint32_t source = 0;
  std::uint32_t bytes = 0;
  std::uint32_t byte_mask = 0xffff;  ///< of every 16 bytes
  int reduction = -1;
  tma::DataType type = tma::DataType::u8;
  bool flush = true;
  std::vector<std::byte> staged;
  bool step(Cluster& cluster) override;
};

/// Tensor-map operations share the map and the coordinates.
struct TensorOperation : BulkOperation {
  std::uint64_t map_address = 0;
  unsigned rank = 1;
  bool gather = false;  ///< tile::gather4: coordinate 0 and four rows
  std::array<std::int32_t, 5> coordinates{};

 protected:
  tma::TensorMap read_map(Cluster& cluster, Context& context) const;
  std::vector<tma::BoxRun> runs(Cluster& cluster, const tma::TensorMap& map, std::uint32_t shared,
                                tma::Direction direction) const;
};
struct TensorLoad final : TensorOperation {
  SharedTarget target;
  bool step(Cluster& cluster) override;
};
struct TensorStore final : TensorOperation {
  std::uint32_t source = 0;
  int reduction = -1;
  std::vector<std::byte> staged;
  std::vector<tma::BoxRun> staged_runs;
  tma::DataType type = tma::DataType::u8;
  bool step(Cluster& cluster) override;
};

}  // namespace ptxemu::exec
