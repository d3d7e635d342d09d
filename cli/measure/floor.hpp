// The least time an attention problem can take on a machine.
#pragma once

#include "jfa/attention.hpp"
#include "jfa/plan.hpp"
#include "measure/machine.hpp"

namespace jfa::tool {

// Each input read once, each output written once; arithmetic of the visible pairs only.
struct Work {
  double flops = 0;
  double bytes = 0;
};

// Forward: S = QKᵀ and PV. Backward: S again, dP, dQ, dK, dV.
Work forward_work(const ForwardArgs& args, const PlanStatistics& plan);
Work backward_work(const BackwardArgs& args, const PlanStatistics& plan);

// The larger of arithmetic over peak rate and bytes over bandwidth, in seconds.
double floor_seconds(const Work& work, const MachinePeak& peak);

}  // namespace jfa::tool
