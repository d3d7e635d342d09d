#include "measure/floor.hpp"

#include <algorithm>
#include <initializer_list>

namespace jfa::tool {
namespace {

// An expanded axis (stride 0) occupies one element.
double bytes_of(const Tensor& tensor) {
  if (!tensor.present()) return 0;
  auto bytes = static_cast<double>(size_of(tensor.dtype));
  for (int axis = 0; axis < tensor.rank; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    if (tensor.strides[a] != 0) bytes *= static_cast<double>(tensor.shape[a]);
  }
  return bytes;
}

double bytes_of(std::initializer_list<Tensor> tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) bytes += bytes_of(tensor);
  return bytes;
}

double input_bytes(const AttentionArgs& args) {
  return bytes_of({args.q, args.k, args.v, args.q_sequences.offsets, args.kv_sequences.offsets,
                   args.kv_map, args.out_scales, args.mask.intervals, args.bias.dense,
                   args.bias.alibi_slopes, args.bias.position_table, args.bias.time_table,
                   args.bias.q_timestamps, args.bias.kv_timestamps});
}

struct Dimensions {
  double heads, dim, value_dim;
};

Dimensions dimensions_of(const AttentionArgs& args) {
  const auto last = [](const Tensor& tensor, int from_end) {
    return static_cast<double>(tensor.shape[static_cast<std::size_t>(tensor.rank - from_end)]);
  };
  return {last(args.q, 2), last(args.q, 1), last(args.v, 1)};
}

}  // namespace

Work forward_work(const ForwardArgs& args, const PlanStatistics& plan) {
  const auto [heads, dim, value_dim] = dimensions_of(args);
  return {plan.visible_pairs * heads * 2 * (dim + value_dim),
          input_bytes(args) + bytes_of({args.out, args.lse})};
}

Work backward_work(const BackwardArgs& args, const PlanStatistics& plan) {
  const auto [heads, dim, value_dim] = dimensions_of(args);
  return {plan.visible_pairs * heads * 2 * (3 * dim + 2 * value_dim),
          input_bytes(args) + bytes_of({args.out, args.lse, args.d_out, args.d_q, args.d_k,
                                        args.d_v, args.d_bias_dense, args.d_alibi_slopes,
                                        args.d_position_table, args.d_time_table})};
}

double floor_seconds(const Work& work, const MachinePeak& peak) {
  return std::max(work.flops / peak.flops, work.bytes / peak.bandwidth);
}

}  // namespace jfa::tool
