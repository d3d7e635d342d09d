// The two calls: device → validate → plan → engine.
#include "jfa/attention.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "api/call.hpp"
#include "cpu/engine.hpp"
#include "cpu/parallel.hpp"
#include "gpu/engine.hpp"
#include "jfa/error.hpp"
#include "plan/plan_data.hpp"

namespace jfa {
namespace {

bool on_cpu(const Execution& execution) {
  return execution.device.kind == DeviceKind::cpu;
}

void check_threads(const Execution& execution) {
  if (execution.threads < 0) {
    throw InvalidArgument(
        fmt::format("threads: {}; it must be 0 (all cores) or the number of threads to use",
                    execution.threads));
  }
}

void check_workspace(const Execution& execution, std::size_t needed) {
  if (execution.workspace == nullptr || execution.workspace_bytes >= needed) return;
  throw InvalidArgument(
      fmt::format("workspace_bytes: {}; this call needs {}: ask forward_workspace_bytes or "
                  "backward_workspace_bytes, or pass no workspace",
                  execution.workspace_bytes, needed));
}

// Runs `engine(call, plan)` with the caller's plan after checking it, or with one made here.
template <typename Engine>
void with_plan(const AttentionArgs& args, detail::Call call, const Execution& execution,
               const Plan* plan, const Engine& engine) {
  if (plan != nullptr && plan->valid()) {
    if (plan->data().device != nullptr) {
      throw InvalidArgument(
          "plan: made for another device, this call runs on cpu; make a plan with the Execution of "
          "the call");
    }
    detail::check_plan_matches(plan->data(), call);
    engine(call, plan->data());
    return;
  }
  const kernels::PlanRules rules =
      detail::cpu_plan_rules(call, cpu::thread_count(execution.threads));
  const detail::PlanData own = detail::plan_call(args, std::move(call), rules);
  engine(own.call, own);
}

}  // namespace

void attention_forward(const ForwardArgs& args, const Execution& execution, const Plan* plan) {
  if (!on_cpu(execution)) return gpu::forward(args, execution, plan);
  check_threads(execution);
  with_plan(args, detail::validate_forward(args), execution, plan,
            [&](const detail::Call& call, const detail::PlanData& data) {
              check_workspace(execution, execution.workspace == nullptr
                                             ? 0
                                             : cpu::forward_scratch_bytes(call, execution));
              cpu::forward(args, call, data, execution);
            });
}

void attention_backward(const BackwardArgs& args, const Execution& execution, const Plan* plan) {
  if (!on_cpu(execution)) gpu::backward(args, execution);
  check_threads(execution);
  with_plan(args, detail::validate_backward(args), execution, plan,
            [&](const detail::Call& call, const detail::PlanData& data) {
              check_workspace(execution,
                              execution.workspace == nullptr
                                  ? 0
                                  : cpu::backward_scratch_bytes(args, call, data, execution));
              cpu::backward(args, call, data, execution);
            });
}

std::size_t forward_workspace_bytes(const ForwardArgs& args, const Execution& execution,
                                    const Plan& plan) {
  if (!on_cpu(execution)) return gpu::forward_workspace_bytes(args, execution, plan);
  check_threads(execution);
  return cpu::forward_scratch_bytes(plan.data().call, execution);
}

std::size_t backward_workspace_bytes(const BackwardArgs& args, const Execution& execution,
                                     const Plan& plan) {
  if (!on_cpu(execution)) gpu::backward(args, execution);
  check_threads(execution);
  return cpu::backward_scratch_bytes(args, plan.data().call, plan.data(), execution);
}

}  // namespace jfa
