// make_plan on a device.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "gpu/device_plan.hpp"
#include "gpu/engine.hpp"
#include "gpu/memory.hpp"
#include "gpu/values.hpp"
#include "jfa/error.hpp"
#include "plan/plan_data.hpp"

namespace jfa::gpu {
namespace {

struct PlanCall {
  PlanShape shape;
  PlanLayout layout;
};

PlanCall resolve_plan(const Gpu& gpu, const AttentionArgs& args, const Execution& execution) {
  const detail::CallShape shape = detail::validate_input_shape(args);
  require_covered(args, shape, gpu.context().info().architecture);
  const PlanShape plan = plan_shape(args, shape, input_rows(args), execution.strict_isolation);
  return {plan, plan_layout(plan)};
}

}  // namespace

Plan make_plan(const AttentionArgs& args, const Execution& execution) {
  Gpu& gpu = gpu_of(execution.device);
  const PlanCall call = resolve_plan(gpu, args, execution);
  check_values(gpu, args, nullptr, execution.stream);
  auto plan = std::make_shared<DevicePlan>();
  plan->gpu = &gpu;
  plan->shape = call.shape;
  plan->layout = call.layout;
  plan->stream = execution.stream;
  plan->mask = args.mask;
  void* memory = execution.plan_memory;
  if (memory == nullptr) {
    if (gpu.context().identity(execution.stream).capture != 0) {
      throw InvalidArgument(fmt::format(
          "plan_memory: missing, and a CUDA graph captures the stream; pass {} bytes of "
          "device memory that live as long as the graph (plan_bytes)",
          call.layout.bytes));
    }
    memory = plan->own.emplace(gpu.context(), call.layout.bytes).data();
  } else {
    given_memory("plan_memory", memory, execution.plan_memory_bytes, call.layout.bytes,
                 "plan_bytes");
  }
  plan->parts = plan_parts(call.layout, memory);
  launch_plan(gpu, args, call.shape, call.layout, memory, execution.stream);
  auto data = std::make_shared<detail::PlanData>();
  data->device = std::move(plan);
  return Plan(std::move(data));
}

std::size_t plan_bytes(const AttentionArgs& args, const Execution& execution) {
  return resolve_plan(gpu_of(execution.device), args, execution).layout.bytes;
}

}  // namespace jfa::gpu
