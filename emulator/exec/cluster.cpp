// Construction of a cluster: CTAs, warps, registers, special registers.
#include "exec/cluster.hpp"

#include <algorithm>

#include "ir/special_registers.hpp"

namespace ptxemu::exec {

using ir::Special;

Cluster::Cluster(Launch& launch, std::uint64_t index) : launch_(launch), index_(index) {
  const std::uint64_t threads = launch.config.block.count();
  warps_per_cta_ = static_cast<std::uint32_t>((threads + kWarpSize - 1) / kWarpSize);
  const auto count = static_cast<std::uint32_t>(launch.config.cluster.count());
  random_.seed(launch.options.seed * 0x9e3779b97f4a7c15ULL + index);
  registers_.resize(std::size_t{launch.kernel->register_bytes} * warps_per_cta_ * count);
  specials_.resize(std::size_t{ir::kSpecialBankBytes} * warps_per_cta_ * count);
  // Registers start as a NaN pattern, so that reading one before it is written shows.
  std::fill(registers_.begin(), registers_.end(), std::byte{0xff});
  ctas_.resize(count);
  for (std::uint32_t rank = 0; rank < count; ++rank) make_cta(ctas_[rank], rank);
  live_warps_ = std::uint64_t{warps_per_cta_} * count;
  if (launch.observer != nullptr) observer_ = launch.observer->begin_cluster(*this);
}

Cluster::~Cluster() = default;

void Cluster::make_cta(Cta& cta, std::uint32_t rank) {
  const LaunchConfig& config = launch_.config;
  const Dim3 shape = config.cluster;
  const Dim3 clusters{config.grid.x / shape.x, config.grid.y / shape.y, config.grid.z / shape.z};
  const auto index = static_cast<std::uint32_t>(index_);
  cta.cluster = this;
  cta.rank = rank;
  cta.id = {index % clusters.x * shape.x + rank % shape.x,
            index / clusters.x % clusters.y * shape.y + rank / shape.x % shape.y,
            index / clusters.x / clusters.y * shape.z + rank / shape.x / shape.y};
  cta.shared.resize(std::size_t{launch_.kernel->static_shared_end} + config.dynamic_shared_bytes);
  std::fill(cta.shared.begin(), cta.shared.end(), std::byte{mem::GlobalMemory::kPoison});
  const auto threads = static_cast<std::uint32_t>(config.block.count());
  cta.live_threads = threads;
  cluster_live_ += threads;
  cta.warps = std::vector<Warp>(warps_per_cta_);
  for (std::uint32_t w = 0; w < warps_per_cta_; ++w) {
    Warp& warp = cta.warps[w];
    const std::size_t slot = std::size_t{rank} * warps_per_cta_ + w;
    const std::uint32_t lanes = std::min<std::uint32_t>(threads - w * kWarpSize, kWarpSize);
    warp.cta = &cta;
    warp.index = w;
    warp.all = warp.live = lanes == kWarpSize ? kFullMask : (LaneMask{1} << lanes) - 1;
    warp.registers = registers_.data() + slot * launch_.kernel->register_bytes;
    warp.specials = specials_.data() + slot * ir::kSpecialBankBytes;
    if (const std::uint32_t frame = launch_.kernel->functions[0].frame_bytes; frame != 0) {
      for (std::uint32_t l = 0; l < lanes; ++l)
        warp.local[l].assign(frame, std::byte{mem::GlobalMemory::kPoison});
    }
    fill_specials(cta, warp);
    auto split = std::make_unique<Split>();
    split->lanes = warp.all;
    split->pc = launch_.kernel->functions[0].entry;
    warp.splits.push_back(std::move(split));
  }
}

void Cluster::fill_specials(const Cta& cta, Warp& warp) {
  const LaunchConfig& config = launch_.config;
  const auto row = [&](Special special) {
    return reinterpret_cast<std::uint32_t*>(warp.specials + static_cast<std::size_t>(special) *
                                                                ir::kSpecialRowBytes);
  };
  const auto uniform = [&](Special special, std::uint32_t value) {
    std::fill_n(row(special), kWarpSize, value);
  };
  const auto uniform3 = [&](Special first, Dim3 value) {
    const auto base = static_cast<int>(first);
    uniform(static_cast<Special>(base), value.x);
    uniform(static_cast<Special>(base + 1), value.y);
    uniform(static_cast<Special>(base + 2), value.z);
  };
  const Dim3 block = config.block;
  for (std::uint32_t l = 0; l < kWarpSize; ++l) {
    const std::uint32_t thread = warp.index * kWarpSize + l;
    row(Special::tid_x)[l] = thread % block.x;
    row(Special::tid_y)[l] = thread / block.x % block.y;
    row(Special::tid_z)[l] = thread / block.x / block.y;
    row(Special::laneid)[l] = l;
    const LaneMask bit = LaneMask{1} << l;
    row(Special::lanemask_eq)[l] = bit;
    row(Special::lanemask_lt)[l] = bit - 1;
    row(Special::lanemask_le)[l] = bit | (bit - 1);
    row(Special::lanemask_gt)[l] = ~(bit | (bit - 1));
    row(Special::lanemask_ge)[l] = ~(bit - 1);
  }
  const Dim3 shape = config.cluster;
  uniform3(Special::ntid_x, block);
  uniform3(Special::ctaid_x, cta.id);
  uniform3(Special::nctaid_x, config.grid);
  uniform(Special::warpid, warp.index);
  uniform(Special::nwarpid, warps_per_cta_);
  uniform(Special::smid, static_cast<std::uint32_t>((index_ * shape.count() + cta.rank) %
                                                    launch_.options.multiprocessors));
  uniform(Special::nsmid, launch_.options.multiprocessors);
  uniform3(Special::clusterid_x, {cta.id.x / shape.x, cta.id.y / shape.y, cta.id.z / shape.z});
  uniform3(Special::nclusterid_x,
           {config.grid.x / shape.x, config.grid.y / shape.y, config.grid.z / shape.z});
  uniform3(Special::cluster_ctaid_x, {cta.id.x % shape.x, cta.id.y % shape.y, cta.id.z % shape.z});
  uniform3(Special::cluster_nctaid_x, shape);
  uniform(Special::cluster_ctarank, cta.rank);
  uniform(Special::cluster_nctarank, static_cast<std::uint32_t>(shape.count()));
  uniform(Special::gridid, 1);
  uniform(Special::dynamic_smem_size, config.dynamic_shared_bytes);
  uniform(Special::total_smem_size,
          static_cast<std::uint32_t>(cta.shared.size()) - launch_.kernel->shared_base);
  uniform(Special::aggr_smem_size, static_cast<std::uint32_t>(cta.shared.size()));
  uniform(Special::reserved_smem_offset, 0);
  uniform(Special::zero, 0);
}

}  // namespace ptxemu::exec
