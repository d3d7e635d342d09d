// Rows of the bank of special registers. Every row is 32 lanes of 32 bits; rows of a warp are
// filled when its CTA starts.
#pragma once

#include <cstdint>
#include <string_view>

namespace ptxemu::ir {

enum class Special : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  clusterid_x,
  clusterid_y,
  clusterid_z,
  nclusterid_x,
  nclusterid_y,
  nclusterid_z,
  cluster_ctaid_x,
  cluster_ctaid_y,
  cluster_ctaid_z,
  cluster_nctaid_x,
  cluster_nctaid_y,
  cluster_nctaid_z,
  cluster_ctarank,
  cluster_nctarank,
  gridid,
  dynamic_smem_size,
  total_smem_size,
  aggr_smem_size,
  reserved_smem_offset,
  zero,
  count,
  // Read when executed, by `mov` only:
  clock,
  clock_hi,
  clock64,
  globaltimer,
  globaltimer_lo,
  globaltimer_hi,
  is_explicit_cluster,
  unknown,
};

inline constexpr std::uint32_t kSpecialRowBytes = 128;
inline constexpr std::uint32_t kSpecialBankBytes =
    static_cast<std::uint32_t>(Special::count) * kSpecialRowBytes;

Special parse_special(std::string_view name);

}  // namespace ptxemu::ir
