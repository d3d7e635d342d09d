// Names of the special registers.
#include "ir/special_registers.hpp"

#include <string>
#include <unordered_map>

namespace ptxemu::ir {

Special parse_special(std::string_view name) {
  using enum Special;
  static const std::unordered_map<std::string_view, Special> kNames{
      {"%tid.x", tid_x},
      {"%tid.y", tid_y},
      {"%tid.z", tid_z},
      {"%ntid.x", ntid_x},
      {"%ntid.y", ntid_y},
      {"%ntid.z", ntid_z},
      {"%ctaid.x", ctaid_x},
      {"%ctaid.y", ctaid_y},
      {"%ctaid.z", ctaid_z},
      {"%nctaid.x", nctaid_x},
      {"%nctaid.y", nctaid_y},
      {"%nctaid.z", nctaid_z},
      {"%laneid", laneid},
      {"%warpid", warpid},
      {"%nwarpid", nwarpid},
      {"%smid", smid},
      {"%nsmid", nsmid},
      {"%lanemask_eq", lanemask_eq},
      {"%lanemask_le", lanemask_le},
      {"%lanemask_lt", lanemask_lt},
      {"%lanemask_ge", lanemask_ge},
      {"%lanemask_gt", lanemask_gt},
      {"%clusterid.x", clusterid_x},
      {"%clusterid.y", clusterid_y},
      {"%clusterid.z", clusterid_z},
      {"%nclusterid.x", nclusterid_x},
      {"%nclusterid.y", nclusterid_y},
      {"%nclusterid.z", nclusterid_z},
      {"%cluster_ctaid.x", cluster_ctaid_x},
      {"%cluster_ctaid.y", cluster_ctaid_y},
      {"%cluster_ctaid.z", cluster_ctaid_z},
      {"%cluster_nctaid.x", cluster_nctaid_x},
      {"%cluster_nctaid.y", cluster_nctaid_y},
      {"%cluster_nctaid.z", cluster_nctaid_z},
      {"%cluster_ctarank", cluster_ctarank},
      {"%cluster_nctarank", cluster_nctarank},
      {"%gridid", gridid},
      {"%dynamic_smem_size", dynamic_smem_size},
      {"%total_smem_size", total_smem_size},
      {"%aggr_smem_size", aggr_smem_size},
      {"%reserved_smem_offset_begin", reserved_smem_offset},
      {"%clock", clock},
      {"%clock_hi", clock_hi},
      {"%clock64", clock64},
      {"%globaltimer", globaltimer},
      {"%globaltimer_lo", globaltimer_lo},
      {"%globaltimer_hi", globaltimer_hi},
      {"%is_explicit_cluster", is_explicit_cluster},
      {"%current_graph_exec", zero}};
  const auto found = kNames.find(name);
  if (found != kNames.end()) return found->second;
  if (name.starts_with("%envreg") || name.starts_with("%pm")) return zero;
  return unknown;
}

}  // namespace ptxemu::ir
