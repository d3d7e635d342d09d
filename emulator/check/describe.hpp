// Words for reports: who accessed what, and which synchronisation would have ordered two accesses.
#pragma once

#include <string>

#include "check/records.hpp"
#include "exec/observer.hpp"

namespace ptxemu::check {

/// "write by thread 37 (warp 1, lane 5) of CTA (0,0,0)" or "write by a bulk copy that thread 0 …
/// issued".
std::string describe(const Record& record, unsigned lane);
/// "shared memory +0x400 (tiles+0x0)" or "global memory 0x7f…".
std::string describe_place(const exec::ClusterView& view, bool shared, std::uint8_t cta,
                           std::uint64_t address);
/// What would have ordered `first` before `second`, as advice.
std::string missing_order(const Record& first, unsigned first_lane, const Record& second,
                          unsigned second_lane);
/// "thread 37 (warp 1, lane 5) of CTA (0,0,0)".
std::string describe_thread(Dim3 cta, std::uint32_t warp, unsigned lane);
/// "threads of warp 1 of CTA (0,0,0), lanes 0x0000000f".
std::string describe_lanes(Dim3 cta, std::uint32_t warp, LaneMask lanes);

}  // namespace ptxemu::check
