// Outputs and gradients of a call.
#include <fmt/format.h>

#include <array>
#include <span>

#include "api/argument.hpp"
#include "api/resolve.hpp"
#include "jfa/error.hpp"

namespace jfa::detail {
namespace {

constexpr std::string_view kCastResult = "allocate it with the type of its input";

// The type of a result that has the type of `input` in engines.
DType result_type(DType input, Purpose purpose) {
  return purpose == Purpose::reference ? DType::float64 : input;
}

void check_result_type(Argument result, DType type, Purpose purpose) {
  check_type(result, std::array{type},
             purpose == Purpose::reference ? "results of the reference are float64" : kCastResult);
}

void require(Argument argument, std::string_view what) {
  if (argument.tensor.present()) return;
  throw InvalidArgument(fmt::format("{}: missing; pass {}", argument.name, what));
}

// Shape of out and d_out.
void check_out_shape(Argument out, const AttentionArgs& args, const CallShape& shape) {
  if (out_layout(args.q_sequences.layout) == Layout::jagged) {
    check_shape(out, {{"total_q", shape.out_rows}, {"Hq", shape.heads}, {"Dv", shape.value_dim}});
    return;
  }
  const std::int64_t rows = args.q.shape[args.q.rank == 4 ? 1 : 0];
  check_shape(
      out, {{"batch", shape.batch}, {"rows", rows}, {"Hq", shape.heads}, {"Dv", shape.value_dim}});
}

void check_lse(Argument lse, const AttentionArgs& args, const CallShape& shape, DType type) {
  if (args.activation != Activation::softmax) {
    throw InvalidArgument(
        "lse: present, but only softmax has a log-sum-exp; leave it out for elementwise "
        "activations");
  }
  check_memory(lse);
  check_type(lse, std::array{type}, "allocate it with that type");
  check_shape(lse, {{"Hq", shape.heads}, {"query rows of out", shape.out_rows}});
  check_last_stride(lse);
}

std::array<Argument, 16> inputs_of(const AttentionArgs& args) {
  return {{{"q", args.q},
           {"k", args.k},
           {"v", args.v},
           {"q_sequences.offsets", args.q_sequences.offsets},
           {"q_sequences.used_lengths", args.q_sequences.used_lengths},
           {"kv_sequences.offsets", args.kv_sequences.offsets},
           {"kv_sequences.used_lengths", args.kv_sequences.used_lengths},
           {"kv_map", args.kv_map},
           {"out_scales", args.out_scales},
           {"mask.intervals", args.mask.intervals},
           {"bias.dense", args.bias.dense},
           {"bias.alibi_slopes", args.bias.alibi_slopes},
           {"bias.position_table", args.bias.position_table},
           {"bias.time_table", args.bias.time_table},
           {"bias.q_timestamps", args.bias.q_timestamps},
           {"bias.kv_timestamps", args.bias.kv_timestamps}}};
}

// No result shares memory with an input or with another result.
void check_all_disjoint(std::span<const Argument> results, std::span<const Argument> inputs) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (const Argument& input : inputs) check_disjoint(results[i], input);
    for (std::size_t j = 0; j < i; ++j) check_disjoint(results[i], results[j]);
  }
}

// A gradient has the shape of its input and, in engines, its type or float32 for biases.
void check_gradient(Argument gradient, Argument input, DType type, Purpose purpose) {
  if (!gradient.tensor.present()) return;
  if (!input.tensor.present()) {
    throw InvalidArgument(
        fmt::format("{}: present, but {} is not; leave it out", gradient.name, input.name));
  }
  check_memory(gradient);
  check_result_type(gradient, type, purpose);
  const auto& shape = input.tensor.shape;
  switch (input.tensor.rank) {
    case 1:
      check_shape(gradient, {{"", shape[0]}});
      break;
    case 2:
      check_shape(gradient, {{"", shape[0]}, {"", shape[1]}});
      break;
    case 3:
      check_shape(gradient, {{"", shape[0]}, {"", shape[1]}, {"", shape[2]}});
      break;
    default:
      check_shape(gradient, {{"", shape[0]}, {"", shape[1]}, {"", shape[2]}, {"", shape[3]}});
  }
  check_writable(gradient);
}

void check_forward_results(const ForwardArgs& args, const CallShape& shape, Purpose purpose) {
  const Argument out{"out", args.out};
  require(out, "a tensor [total_q, Hq, Dv] (dense and broadcast queries: [batch, rows, Hq, Dv])");
  check_memory(out);
  check_result_type(out, result_type(args.q.dtype, purpose), purpose);
  check_out_shape(out, args, shape);
  check_last_stride(out);
  check_writable(out);
  const Argument lse{"lse", args.lse};
  if (args.lse.present()) {
    check_lse(lse, args, shape, result_type(DType::float32, purpose));
    check_writable(lse);
  }
  check_all_disjoint(std::array{out, lse}, inputs_of(args));
}

Call forward_call(const ForwardArgs& args, Purpose purpose) {
  Call call = resolve_call(args, purpose);
  check_forward_results(args, call, purpose);
  return call;
}

// out and lse of the forward call. The reference computes them itself and does not read these.
void check_saved(const BackwardArgs& args, const CallShape& shape) {
  const Argument out{"out", args.out};
  const Argument lse{"lse", args.lse};
  if (args.activation != Activation::softmax) {
    if (args.lse.present()) check_lse(lse, args, shape, DType::float32);
    return;
  }
  require(out, "the output of the forward call");
  check_memory(out);
  check_type(out, std::array{args.q.dtype}, "pass the output of the forward call");
  check_out_shape(out, args, shape);
  check_last_stride(out);
  require(lse, "the log-sum-exp of the forward call, float32 [Hq, query rows]");
  check_lse(lse, args, shape, DType::float32);
}

Call backward_call(const BackwardArgs& args, Purpose purpose) {
  Call call = resolve_call(args, purpose);
  if (purpose == Purpose::engine) check_saved(args, call);

  const Argument d_out{"d_out", args.d_out};
  require(d_out, "the gradient of out");
  check_memory(d_out);
  if (purpose == Purpose::reference) {
    check_type(d_out, std::array{DType::float32, DType::bfloat16, DType::float16, DType::float64},
               "cast it");
  } else {
    check_type(d_out, std::array{args.q.dtype}, "cast it to the type of q");
  }
  check_out_shape(d_out, args, call);

  const Bias& bias = args.bias;
  const DType bias_type = result_type(DType::float32, purpose);
  const Argument d_q{"d_q", args.d_q};
  const Argument d_k{"d_k", args.d_k};
  const Argument d_v{"d_v", args.d_v};
  const Argument d_dense{"d_bias_dense", args.d_bias_dense};
  const Argument d_slopes{"d_alibi_slopes", args.d_alibi_slopes};
  const Argument d_positions{"d_position_table", args.d_position_table};
  const Argument d_times{"d_time_table", args.d_time_table};
  check_gradient(d_q, {"q", args.q}, result_type(args.q.dtype, purpose), purpose);
  check_gradient(d_k, {"k", args.k}, result_type(args.k.dtype, purpose), purpose);
  check_gradient(d_v, {"v", args.v}, result_type(args.v.dtype, purpose), purpose);
  for (const Argument& gradient : {d_q, d_k, d_v}) {
    if (gradient.tensor.present()) check_last_stride(gradient);
  }
  check_gradient(d_dense, {"bias.dense", bias.dense}, bias_type, purpose);
  check_gradient(d_slopes, {"bias.alibi_slopes", bias.alibi_slopes}, bias_type, purpose);
  check_gradient(d_positions, {"bias.position_table", bias.position_table}, bias_type, purpose);
  check_gradient(d_times, {"bias.time_table", bias.time_table}, bias_type, purpose);

  const std::array results{d_q, d_k, d_v, d_dense, d_slopes, d_positions, d_times};
  check_all_disjoint(results, inputs_of(args));
  const std::array saved{d_out, Argument{"out", args.out}, Argument{"lse", args.lse}};
  for (const Argument& result : results) {
    for (const Argument& input : saved) check_disjoint(result, input);
  }
  return call;
}

}  // namespace

Call validate_forward(const ForwardArgs& args) {
  return forward_call(args, Purpose::engine);
}
CallShape validate_forward_shape(const ForwardArgs& args) {
  const CallShape shape = validate_input_shape(args);
  check_forward_results(args, shape, Purpose::engine);
  return shape;
}
Call validate_backward(const BackwardArgs& args) {
  return backward_call(args, Purpose::engine);
}
Call validate_reference_forward(const ForwardArgs& args) {
  return forward_call(args, Purpose::reference);
}
Call validate_reference_backward(const BackwardArgs& args) {
  return backward_call(args, Purpose::reference);
}

}  // namespace jfa::detail
