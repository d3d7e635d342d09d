// attention_forward on a device: shapes → memory → copies → plan → kernel.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string_view>
#include <utility>

#include "attention/copy_arguments.h"
#include "attention/forward_arguments.h"
#include "gpu/device_plan.hpp"
#include "gpu/engine.hpp"
#include "gpu/memory.hpp"
#include "gpu/tensor_maps.hpp"
#include "gpu/values.hpp"
#include "jfa/error.hpp"
#include "plan/plan_data.hpp"

namespace jfa::gpu {
namespace {

using detail::CallShape;

// One call, resolved: the same for the launch and for the size of its workspace.
struct ForwardCall {
  const ForwardArgs& args;
  CallShape shape;
  InputRows inputs;
  Rows out;
  PlanShape plan;

  std::size_t copy_bytes() const {
    return aligned(inputs.q.copy_bytes()) + aligned(inputs.k.copy_bytes()) +
           aligned(inputs.v.copy_bytes()) + aligned(out.copy_bytes());
  }
};

void check_execution(const Gpu& gpu, const Execution& execution) {
  const int multiprocessors = gpu.context().info().multiprocessors;
  if (execution.sm_margin < 0 || execution.sm_margin >= multiprocessors) {
    throw InvalidArgument(
        fmt::format("sm_margin: {}; it must be at least 0 and leave one of the device's {} "
                    "multiprocessors",
                    execution.sm_margin, multiprocessors));
  }
}

ForwardCall resolve(const Gpu& gpu, const ForwardArgs& args, const Execution& execution) {
  check_execution(gpu, execution);
  const CallShape shape = detail::validate_forward_shape(args);
  require_covered(args, shape, gpu.context().info().architecture);
  const InputRows inputs = input_rows(args);
  return {args, shape, inputs, output_rows(args),
          plan_shape(args, shape, inputs, execution.strict_isolation)};
}

kernels::RowCopy copy_between(const Rows& rows, bool back) {
  const Tensor& tensor = *rows.tensor;
  const bool dense = tensor.rank == 4;
  const std::size_t row = dense ? 1 : 0;
  kernels::RowCopy copy;
  copy.batch = dense ? tensor.shape[0] : 1;
  copy.rows = tensor.shape[row];
  copy.heads = rows.heads;
  copy.dim = static_cast<int>(rows.dim);
  auto* const theirs = static_cast<unsigned short*>(tensor.data);
  auto* const ours = static_cast<unsigned short*>(rows.data);
  copy.from = theirs;
  copy.from_batch = dense ? tensor.strides[0] : 0;
  copy.from_row = tensor.strides[row];
  copy.from_head = tensor.strides[row + 1];
  copy.to = ours;
  copy.to_batch = rows.sequence_rows * rows.row_stride;
  copy.to_row = rows.row_stride;
  copy.to_head = rows.head_stride;
  if (rows.sign == Rows::Sign::zero) copy.keep = 0;
  if (rows.sign == Rows::Sign::flipped) copy.flip = 0x8000;
  if (!back) return copy;
  std::swap(copy.from_batch, copy.to_batch);
  std::swap(copy.from_row, copy.to_row);
  std::swap(copy.from_head, copy.to_head);
  copy.from = ours;
  copy.to = theirs;
  return copy;
}

// The copies of `rows` that are to be made, in one launch.
void launch_copies(Gpu& gpu, std::initializer_list<const Rows*> rows, bool back,
                   runtime::StreamHandle stream) {
  kernels::CopyArguments arguments;
  unsigned count = 0;
  std::int64_t pieces = 0;
  for (const Rows* one : rows) {
    if (one->copied == nullptr) continue;
    const kernels::RowCopy copy = copy_between(*one, back);
    pieces = std::max<std::int64_t>(
        pieces, copy.batch * copy.rows * copy.heads * (copy.dim / kernels::kCopyColumns));
    arguments.copies[count++] = copy;
  }
  if (count == 0) return;
  constexpr std::int64_t kBlocksPerMultiprocessor = 8;
  const std::int64_t most = kBlocksPerMultiprocessor * gpu.context().info().multiprocessors;
  const std::int64_t blocks = std::clamp<std::int64_t>(
      (pieces + kernels::kCopyThreads - 1) / kernels::kCopyThreads, 1, most);
  gpu.copy_kernel().launch({.grid = {static_cast<unsigned>(blocks), count},
                            .block = {kernels::kCopyThreads},
                            .stream = stream},
                           arguments);
}

// Of a score as a power of two. The sign is in the queries; where they are zeros any scale will do.
float softmax_scale(const ForwardCall& call) {
  if (call.inputs.q.sign == Rows::Sign::zero) return 1;
  using Limits = std::numeric_limits<float>;
  return static_cast<float>(std::clamp(std::abs(call.shape.scale) * std::numbers::log2e,
                                       double{Limits::min()}, double{Limits::max()}));
}

kernels::ForwardArguments arguments_of(const ForwardCall& call, const PlanParts& plan,
                                       kernels::WorkCounters* counters, int packed) {
  const ForwardArgs& args = call.args;
  const auto group = static_cast<int>(call.shape.heads / call.shape.kv_heads);
  kernels::ForwardArguments arguments{};
  arguments.plan = plan.header;
  arguments.tiles = plan.tiles;
  arguments.sequences = plan.sequences;
  arguments.gaps = plan.gaps;
  arguments.counters = counters;
  arguments.heads = static_cast<int>(call.shape.heads) / packed;
  arguments.heads_per_kv_head = group / packed;
  arguments.out = call.out.data;
  arguments.out_row_stride = call.out.row_stride;
  arguments.out_head_stride = call.out.head_stride;
  arguments.query_heads = static_cast<int>(call.shape.heads);
  arguments.value_dim = static_cast<int>(call.shape.value_dim);
  if (args.lse.present()) {
    arguments.lse = static_cast<float*>(args.lse.data);
    arguments.lse_head_stride = args.lse.strides[0];
  }
  const bool softmax = args.activation == Activation::softmax;
  arguments.scale = static_cast<float>(call.shape.scale);
  if (softmax) arguments.scale = softmax_scale(call);
  arguments.out_scale = static_cast<float>(args.out_scale);
  arguments.leaky_slope = static_cast<float>(args.leaky_slope);
  if (args.out_scale_kind != OutScale::uniform) {
    arguments.out_scale_per_token = args.out_scale_kind == OutScale::per_token ? 1 : 0;
    arguments.out_scales = static_cast<const float*>(args.out_scales.data);
    arguments.out_scales_stride = args.out_scales.strides[0];
  }
  arguments.mask = mask_arguments(args.mask);
  return arguments;
}

void launch_forward(Gpu& gpu, const ForwardCall& call, const PlanParts& plan,
                    kernels::WorkCounters* counters, std::int64_t most_tiles,
                    const Execution& execution) {
  const ForwardKey key = forward_key(call.args, call.shape);
  const kernels::sm90::ForwardShape tile = shape_of(key);
  const runtime::Context& context = gpu.context();
  const DType dtype = call.args.q.dtype;
  const int packed = key.packed_heads;
  const int group_rows = kernels::sm90::kForwardGroupRows / packed;
  const auto map = [&](const Rows& rows, int dim, int box_rows, int box_heads) {
    return ragged_map(context, rows, dtype, dim, box_rows, box_heads, plan.header);
  };
  const kernels::ForwardArguments arguments = arguments_of(call, plan, counters, packed);
  // Each block takes work until there is none; one is left to write rows that belong to nobody.
  const std::int64_t work = most_tiles * arguments.heads;
  const std::int64_t blocks =
      std::clamp<std::int64_t>(work, 1, context.info().multiprocessors - execution.sm_margin);
  gpu.forward_kernel(key).launch(
      {.grid = {static_cast<unsigned>(blocks)},
       .block = {static_cast<unsigned>(kernels::sm90::forward_threads(tile))},
       .dynamic_shared_bytes = static_cast<unsigned>(kernels::sm90::forward_shared_bytes(tile)),
       .overlap_previous = true,
       .stream = execution.stream},
      arguments, map(call.inputs.q, tile.dim, group_rows, packed),
      map(call.inputs.k, tile.dim, tile.keys, 1), map(call.inputs.v, tile.value_dim, tile.keys, 1),
      map(call.out, tile.value_dim, group_rows, packed));
}

const DevicePlan* device_plan_of(const Gpu& gpu, const Plan* plan, const PlanShape& shape) {
  if (plan == nullptr || !plan->valid()) return nullptr;
  const DevicePlan* device_plan = plan->data().device.get();
  if (device_plan == nullptr || device_plan->gpu != &gpu) {
    throw InvalidArgument(fmt::format(
        "plan: made for {}, this call runs on {}; make a plan with the Execution of the call",
        device_plan == nullptr ? "cpu" : to_string(device_plan->gpu->context().info().device),
        to_string(gpu.context().info().device)));
  }
  require_same(device_plan->shape, shape);
  return device_plan;
}

}  // namespace

void forward(const ForwardArgs& args, const Execution& execution, const Plan* plan) {
  Gpu& gpu = gpu_of(execution.device);
  ForwardCall call = resolve(gpu, args, execution);
  const DevicePlan* made = device_plan_of(gpu, plan, call.plan);
  check_values(gpu, args, made, execution.stream);

  const PlanLayout layout = made != nullptr ? made->layout : plan_layout(call.plan);
  const std::size_t plan_size = made != nullptr ? 0 : layout.bytes;
  const std::size_t needed = plan_size + call.copy_bytes();
  std::byte* memory = nullptr;
  Gpu::Scratch scratch;  // held until everything is launched
  if (execution.workspace != nullptr) {
    memory = static_cast<std::byte*>(given_memory("workspace", execution.workspace,
                                                  execution.workspace_bytes, needed,
                                                  "forward_workspace_bytes"));
  } else if (needed > 0) {
    scratch = gpu.scratch(execution.stream, needed);
    memory = static_cast<std::byte*>(scratch.data);
  }

  std::byte* next = memory + plan_size;
  for (Rows* rows : {&call.inputs.q, &call.inputs.k, &call.inputs.v, &call.out}) {
    if (rows->copied == nullptr) continue;
    rows->data = next;
    next += aligned(rows->copy_bytes());
  }
  launch_copies(gpu, {&call.inputs.q, &call.inputs.k, &call.inputs.v}, false, execution.stream);
  if (made != nullptr) {
    const int slot = made->slots.slot_of(gpu.context().identity(execution.stream));
    launch_forward(gpu, call, made->parts, made->parts.counters + slot, layout.most_tiles,
                   execution);
  } else {
    launch_plan(gpu, args, call.plan, layout, memory, execution.stream);
    const PlanParts parts = plan_parts(layout, memory);
    launch_forward(gpu, call, parts, parts.counters, layout.most_tiles, execution);
  }
  launch_copies(gpu, {&call.out}, true, execution.stream);
}

std::size_t forward_workspace_bytes(const ForwardArgs& args, const Execution& execution,
                                    const Plan& plan) {
  const Gpu& gpu = gpu_of(execution.device);
  const ForwardCall call = resolve(gpu, args, execution);
  const DevicePlan* made = device_plan_of(gpu, &plan, call.plan);
  return call.copy_bytes() + (made != nullptr ? 0 : plan_layout(call.plan).bytes);
}

void backward(const BackwardArgs& args, const Execution& execution) {
  (void)args;
  throw Unsupported(fmt::format(
      "device: {} has no backward pass yet; copy the tensors to the host and use device "
      "cpu",
      to_string(execution.device)));
}

}  // namespace jfa::gpu
