// What forward, backward and plan share: q, k, v, the batch and the scalars.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "api/argument.hpp"
#include "api/resolve.hpp"
#include "api/scalar.hpp"
#include "jfa/error.hpp"

namespace jfa::detail {
namespace {

constexpr std::array kEngineTypes = {DType::float32, DType::bfloat16, DType::float16};
constexpr std::array kFloatTypes = {DType::float32, DType::bfloat16, DType::float16,
                                    DType::float64};
constexpr std::array kIntegerTypes = {DType::int32, DType::int64};

void check_rows(Argument argument, Layout layout, std::string_view shape) {
  const auto& [name, tensor] = argument;
  if (!tensor.present()) {
    throw InvalidArgument(fmt::format("{}: missing; pass a tensor {}", name, shape));
  }
  check_memory(argument);
  const int rank = layout == Layout::dense ? 4 : 3;
  if (tensor.rank != rank) {
    constexpr std::array<std::string_view, 3> kLayouts = {"jagged", "dense", "broadcast"};
    throw InvalidArgument(fmt::format("{}: shape {} has rank {}; the layout {} needs {}", name,
                                      shape_of(tensor), tensor.rank,
                                      kLayouts.at(static_cast<std::size_t>(layout)), shape));
  }
  check_last_stride(argument);
}

void check_input_types(const AttentionArgs& args, Purpose purpose) {
  const std::array<Argument, 3> inputs = {{{"q", args.q}, {"k", args.k}, {"v", args.v}}};
  for (const Argument& input : inputs) {
    if (purpose == Purpose::reference) {
      check_type(input, kFloatTypes, "cast it");
    } else {
      check_type(input, kEngineTypes, "cast it, or use reference_forward for float64");
      check_type(input, std::array{args.q.dtype}, "q, k and v must have one type; cast it");
    }
  }
}

std::string_view shape_text(Layout layout, bool queries) {
  if (queries) {
    if (layout == Layout::jagged) return "[total_q, Hq, D]";
    return layout == Layout::dense ? "[batch, rows, Hq, D]" : "[rows, Hq, D]";
  }
  if (layout == Layout::jagged) return "[total_k, Hkv, D] (v: Dv)";
  return layout == Layout::dense ? "[batch, rows, Hkv, D] (v: Dv)" : "[rows, Hkv, D] (v: Dv)";
}

void resolve_shapes(const AttentionArgs& args, CallShape& shape) {
  const auto axis = [](const Tensor& tensor, int from_end) {
    return tensor.shape.at(static_cast<std::size_t>(tensor.rank - from_end));
  };
  shape.heads = axis(args.q, 2);
  shape.dim = axis(args.q, 1);
  shape.kv_heads = axis(args.k, 2);
  shape.value_dim = axis(args.v, 1);
  if (axis(args.k, 1) != shape.dim) {
    throw InvalidArgument(fmt::format("k: head dimension {} (shape {}) differs from q's {} ({})",
                                      axis(args.k, 1), shape_of(args.k), shape.dim,
                                      shape_of(args.q)));
  }
  for (int from_end = args.k.rank; from_end > 1; --from_end) {
    if (axis(args.k, from_end) != axis(args.v, from_end)) {
      throw InvalidArgument(fmt::format("v: shape {} must equal that of k {} but for the last axis",
                                        shape_of(args.v), shape_of(args.k)));
    }
  }
  if (shape.dim < 1 || shape.value_dim < 1) {
    throw InvalidArgument(
        fmt::format("{}: head dimension 0; it must be at least 1", shape.dim < 1 ? "q" : "v"));
  }
  if (shape.heads < 1 || shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0) {
    throw InvalidArgument(
        fmt::format("q: {} heads with {} heads in k and v; both must be at least 1 and q's a "
                    "multiple of k's (grouped heads)",
                    shape.heads, shape.kv_heads));
  }
}

// Sequences that one side tells of; −1 for broadcast, which serves any number.
std::int64_t told_batch(Argument rows, std::string_view offsets_name, const Sequences& sequences) {
  if (sequences.layout == Layout::broadcast) return -1;
  if (sequences.layout == Layout::dense) return rows.tensor.shape[0];
  const Argument offsets{offsets_name, sequences.offsets};
  if (!sequences.offsets.present()) {
    throw InvalidArgument(
        fmt::format("{}: missing; jagged {} needs offsets [batch + 1], int32 or int64 (use "
                    "offsets_from_lengths for lengths)",
                    offsets_name, rows.name));
  }
  check_memory(offsets);
  check_type(offsets, kIntegerTypes, "cast it");
  check_shape(offsets, {{"batch + 1"}});
  if (sequences.offsets.shape[0] < 1) {
    throw InvalidArgument(
        fmt::format("{}: shape [0]; it has batch + 1 entries, so at least one", offsets_name));
  }
  return sequences.offsets.shape[0] - 1;
}

void resolve_batch(const AttentionArgs& args, CallShape& shape) {
  const std::int64_t q_batch = told_batch({"q", args.q}, "q_sequences.offsets", args.q_sequences);
  const std::int64_t kv_batch =
      told_batch({"k", args.k}, "kv_sequences.offsets", args.kv_sequences);
  shape.kv_batch = kv_batch < 0 ? 1 : kv_batch;

  if (args.kv_map.present()) {
    if (kv_batch < 0) {
      throw InvalidArgument(
          "kv_map: present, but broadcast keys have one sequence for all; leave it out");
    }
    const Argument map{"kv_map", args.kv_map};
    check_memory(map);
    check_type(map, kIntegerTypes, "cast it");
    check_shape(map, {{"batch", q_batch}});
    shape.batch = args.kv_map.shape[0];
  } else if (q_batch >= 0 && kv_batch >= 0 && q_batch != kv_batch) {
    throw InvalidArgument(
        fmt::format("kv_sequences: {} key sequences for {} query sequences; the numbers must agree "
                    "unless kv_map tells which key sequence each query sequence uses",
                    kv_batch, q_batch));
  } else {
    shape.batch = q_batch >= 0 ? q_batch : kv_batch;
  }

  if (args.batch < -1) {
    throw InvalidArgument(
        fmt::format("batch: {}; it must be −1 (told by q or k) or at least 0", args.batch));
  }
  if (shape.batch < 0 && args.batch < 0) {
    throw InvalidArgument(
        "batch: −1, but q and k are both broadcast; pass the number of sequences");
  }
  if (shape.batch < 0) shape.batch = args.batch;
  if (args.batch >= 0 && args.batch != shape.batch) {
    throw InvalidArgument(fmt::format("batch: {}, but q, k or kv_map have {} sequences; pass −1",
                                      args.batch, shape.batch));
  }
  if (shape.batch > std::numeric_limits<std::int32_t>::max()) {
    throw InvalidArgument(fmt::format(
        "batch: {} sequences; at most 2^31 − 1 are supported in one call; split it", shape.batch));
  }
}

void resolve_out_rows(const AttentionArgs& args, CallShape& shape) {
  shape.out_rows = args.q.shape[0];
  if (args.q_sequences.layout == Layout::jagged) return;
  const std::int64_t rows = args.q.shape[args.q_sequences.layout == Layout::dense ? 1 : 0];
  if (__builtin_mul_overflow(shape.batch, rows, &shape.out_rows)) {
    throw InvalidArgument(
        fmt::format("q: {} sequences of {} rows are more than 2^63 rows", shape.batch, rows));
  }
}

void check_finite(std::string_view name, double value) {
  if (std::isfinite(value)) return;
  throw InvalidArgument(fmt::format("{}: {}; it must be a finite number", name, value));
}

void check_activation(const AttentionArgs& args) {
  if (args.activation > Activation::identity) {
    throw InvalidArgument(fmt::format("activation: {} is not a value of Activation",
                                      static_cast<int>(args.activation)));
  }
  check_finite("leaky_slope", args.leaky_slope);
  if (args.scale) check_finite("scale", *args.scale);
  check_finite("out_scale", args.out_scale);
}

void check_out_scale(const AttentionArgs& args, const CallShape& shape, Purpose purpose) {
  const Tensor& scales = args.out_scales;
  if (args.out_scale_kind > OutScale::per_token) {
    throw InvalidArgument(fmt::format("out_scale_kind: {} is not a value of OutScale",
                                      static_cast<int>(args.out_scale_kind)));
  }
  if (args.out_scale_kind == OutScale::uniform) {
    if (scales.present()) {
      throw InvalidArgument(
          "out_scales: present, but out_scale_kind is uniform; set it to per_sequence or "
          "per_token");
    }
    return;
  }
  const bool per_token = args.out_scale_kind == OutScale::per_token;
  if (!scales.present()) {
    throw InvalidArgument(fmt::format("out_scales: missing; out_scale_kind asks for float32 {}",
                                      per_token ? "[query rows of out]" : "[batch]"));
  }
  const Argument argument{"out_scales", scales};
  check_memory(argument);
  if (purpose == Purpose::reference) {
    check_type(argument, kFloatTypes, "cast it");
  } else {
    check_type(argument, std::array{DType::float32}, "cast it");
  }
  if (per_token) {
    check_shape(argument, {{"query rows of out", shape.out_rows}});
  } else {
    check_shape(argument, {{"batch", shape.batch}});
  }
}

// Multiplies per-sequence scales in; engines read per-token scales themselves.
void resolve_out_scale(const AttentionArgs& args, Call& call) {
  const Tensor& scales = args.out_scales;
  for (SequenceView& sequence : call.sequences) {
    sequence.out_scale = args.out_scale;
    if (args.out_scale_kind != OutScale::per_sequence) continue;
    const double scale = real_at(scales, sequence.index * scales.strides[0]);
    if (!std::isfinite(scale)) {
      check_finite(fmt::format("out_scales[{}]", sequence.index), scale);
    }
    sequence.out_scale *= scale;
  }
}

}  // namespace

std::int64_t stored_rows(const Tensor& rows, Layout layout) {
  return layout == Layout::dense ? rows.shape[0] * rows.shape[1] : rows.shape[0];
}

CallShape resolve_shape(const AttentionArgs& args, Purpose purpose) {
  for (const Sequences* side : {&args.q_sequences, &args.kv_sequences}) {
    if (side->layout > Layout::broadcast) {
      throw InvalidArgument(fmt::format("{}.layout: {} is not a value of Layout",
                                        side == &args.q_sequences ? "q_sequences" : "kv_sequences",
                                        static_cast<int>(side->layout)));
    }
  }
  check_rows({"q", args.q}, args.q_sequences.layout, shape_text(args.q_sequences.layout, true));
  check_rows({"k", args.k}, args.kv_sequences.layout, shape_text(args.kv_sequences.layout, false));
  check_rows({"v", args.v}, args.kv_sequences.layout, shape_text(args.kv_sequences.layout, false));
  check_input_types(args, purpose);

  CallShape shape;
  resolve_shapes(args, shape);
  resolve_batch(args, shape);
  resolve_out_rows(args, shape);
  check_activation(args);
  const bool softmax = args.activation == Activation::softmax;
  shape.scale =
      args.scale.value_or(softmax ? 1.0 / std::sqrt(static_cast<double>(shape.dim)) : 1.0);
  check_sequences(args, shape);
  check_mask(args.mask, shape);
  check_bias(args, shape, purpose);
  check_out_scale(args, shape, purpose);
  return shape;
}

Call resolve_call(const AttentionArgs& args, Purpose purpose) {
  Call call{resolve_shape(args, purpose), {}};
  resolve_sequences(args, call);
  resolve_mask(args.mask, call);
  check_bias_extent(args, call);
  resolve_out_scale(args, call);
  return call;
}

Call validate_inputs(const AttentionArgs& args) {
  return resolve_call(args, Purpose::engine);
}

CallShape validate_input_shape(const AttentionArgs& args) {
  return resolve_shape(args, Purpose::engine);
}

}  // namespace jfa::detail
