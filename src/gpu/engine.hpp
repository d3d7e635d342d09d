// The engine of GPUs and PTX machines: what src/api and src/plan call.
#pragma once

#include <cstddef>

#include "jfa/attention.hpp"

namespace jfa::gpu {

struct DevicePlan;

void forward(const ForwardArgs& args, const Execution& execution, const Plan* plan);
std::size_t forward_workspace_bytes(const ForwardArgs& args, const Execution& execution,
                                    const Plan& plan);

Plan make_plan(const AttentionArgs& args, const Execution& execution);
std::size_t plan_bytes(const AttentionArgs& args, const Execution& execution);

// Waits for the plan and copies it back.
PlanStatistics statistics(const DevicePlan& plan);

// Refuses what devices do not have yet.
[[noreturn]] void backward(const BackwardArgs& args, const Execution& execution);

}  // namespace jfa::gpu
