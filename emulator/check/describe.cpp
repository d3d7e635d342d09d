#include "check/describe.hpp"

#include <bit>
#include <cstdio>

namespace ptxemu::check {
namespace {

using exec::AccessKind;
using exec::AgentKind;

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string cta_name(Dim3 cta) {
  return "CTA (" + std::to_string(cta.x) + "," + std::to_string(cta.y) + "," +
         std::to_string(cta.z) + ")";
}

const char* operation_name(const Record& record) {
  switch (record.operation->issue.agent.kind) {
    case AgentKind::tensor_core:
      return "a wgmma";
    case AgentKind::bulk_copy:
      return "a bulk copy";
    case AgentKind::cp_async:
      return "a cp.async";
    case AgentKind::st_async:
      return "an asynchronous store";
    case AgentKind::warp:
      break;
  }
  return "an asynchronous operation";
}

const char* kind_name(AccessKind kind) {
  switch (kind) {
    case AccessKind::read:
      return "read";
    case AccessKind::write:
      return "write";
    case AccessKind::atomic:
      return "atomic update";
  }
  return "access";
}

/// The wait that makes a finished operation known.
std::string completion_wait(const Record& record) {
  const bool reads = record.kind == AccessKind::read;
  switch (record.operation->issue.completion) {
    case exec::Completion::mbarrier:
      return "a wait on the mbarrier that the copy completes (mbarrier.try_wait of its phase)";
    case exec::Completion::bulk_group:
      return reads
                 ? "cp.async.bulk.commit_group and cp.async.bulk.wait_group.read by the issuing "
                   "thread"
                 : "cp.async.bulk.commit_group and cp.async.bulk.wait_group by the issuing thread";
    case exec::Completion::cp_async_group:
      return "cp.async.wait_group by the issuing thread (or cp.async.mbarrier.arrive and a wait)";
    case exec::Completion::wgmma_group:
      return "wgmma.commit_group and wgmma.wait_group";
    case exec::Completion::none:
      break;
  }
  return "a wait for its completion";
}

}  // namespace

std::string describe_thread(Dim3 cta, std::uint32_t warp, unsigned lane) {
  return "thread " + std::to_string(warp * 32 + lane) + " (warp " + std::to_string(warp) +
         ", lane " + std::to_string(lane) + ") of " + cta_name(cta);
}

std::string describe_lanes(Dim3 cta, std::uint32_t warp, LaneMask lanes) {
  if (std::popcount(lanes) == 1) {
    return describe_thread(cta, warp, static_cast<unsigned>(std::countr_zero(lanes)));
  }
  std::string text = "warp " + std::to_string(warp) + " of " + cta_name(cta);
  if (lanes != ir::kFullMask) text += ", lanes " + hex(lanes);
  return text;
}

std::string describe(const Record& record, unsigned lane) {
  std::string text = kind_name(record.kind);
  text += " by ";
  if (record.operation == nullptr) return text + describe_thread(record.cta_id, record.warp, lane);
  text += operation_name(record);
  text += " that ";
  text += describe_lanes(record.cta_id, record.warp, record.operation->issue.lanes);
  return text + " issued";
}

std::string describe_place(const exec::ClusterView& view, bool shared, std::uint8_t cta,
                           std::uint64_t address) {
  if (!shared) return "global memory " + hex(address);
  std::string text = "shared memory +" + hex(address);
  if (view.cta_count() > 1) text += " of CTA rank " + std::to_string(cta);
  const std::string name = view.shared_name(static_cast<std::uint32_t>(address));
  if (!name.empty()) text += " (" + name + ")";
  return text;
}

std::string missing_order(const Record& first, unsigned first_lane, const Record& second,
                          unsigned second_lane) {
  if (first.operation != nullptr) {
    const bool same_issuer = second.agent == first.agent && second.cluster == first.cluster;
    return completion_wait(first) +
           (same_issuer ? "" : ", passed on to this thread by a barrier or an mbarrier");
  }
  if (first.cluster != second.cluster) {
    return "a release and an acquire of gpu scope (atomics, fences), or two kernels";
  }
  if (first.cta != second.cta) {
    return "barrier.cluster.arrive.release and barrier.cluster.wait.acquire, or a remote mbarrier "
           "arrive";
  }
  if (first.agent == second.agent && first_lane != second_lane) {
    return "bar.warp.sync (__syncwarp) between the lanes";
  }
  return "a barrier (bar.sync, or an mbarrier arrive and a wait) between the two";
}

}  // namespace ptxemu::check
