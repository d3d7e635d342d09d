#include "gpu/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpu/plan_launch.hpp"
#include "gpu/rows.hpp"
#include "jfa/error.hpp"
#include "jfa/kernel_choice.hpp"

namespace jfa {
namespace gpu {
namespace {

constexpr std::string_view kArchitecture = "sm_90a";
constexpr int kMostDim = 256;

// kernels/attention/activation.h
constexpr std::array<std::string_view, 9> kActivations = {
    "softmax", "silu", "gelu", "gelu_tanh", "relu", "relu2", "leaky_relu", "hardswish", "identity"};
// kernels/attention/intervals.h
constexpr std::array<std::string_view, 7> kMasks = {"full",         "causal", "window",   "hstu",
                                                    "prefix_local", "blocks", "intervals"};

void require_dim(std::string_view name, std::int64_t dim) {
  if (dim % 8 == 0 && dim <= kMostDim) return;
  throw Unsupported(
      fmt::format("{}: head dimension {}; GPUs support multiples of 8 up to {}; pad the last axis "
                  "with zeros, or use device cpu",
                  name, dim, kMostDim));
}

void require_no_bias(std::string_view name, const Tensor& bias) {
  if (!bias.present()) return;
  throw Unsupported(fmt::format(
      "{}: present; the GPU kernels have no biases yet; leave it out or use device cpu", name));
}

}  // namespace

void require_covered(const AttentionArgs& args, const detail::CallShape& shape,
                     std::string_view architecture) {
  if (architecture != kArchitecture) {
    throw Unsupported(
        fmt::format("device: its architecture is {}; there are kernels for {} only; "
                    "use device cpu",
                    architecture, kArchitecture));
  }
  if (args.q.dtype == DType::float32) {
    throw Unsupported(
        "q: type float32; GPUs support bfloat16 and float16; cast q, k and v, or use device cpu");
  }
  require_dim("q", shape.dim);
  require_dim("v", shape.value_dim);
  require_no_bias("bias.dense", args.bias.dense);
  require_no_bias("bias.alibi_slopes", args.bias.alibi_slopes);
  require_no_bias("bias.position_table", args.bias.position_table);
  require_no_bias("bias.time_table", args.bias.time_table);
  if (shape.out_rows > kMostRows) {
    throw Unsupported(fmt::format(
        "out: {} rows; at most 2^29 − 1 are supported on GPUs; split the batch", shape.out_rows));
  }
}

namespace {

// Whether larger blocks of keys exist for these head dimensions and the keys are long enough for
// them, as far as shapes tell.
bool wants_long_keys(const AttentionArgs& args, const detail::CallShape& shape) {
  const auto dim = static_cast<int>(shape.dim);
  const auto value_dim = static_cast<int>(shape.value_dim);
  if (kernels::sm90::forward_shape(dim, value_dim, true) ==
      kernels::sm90::forward_shape(dim, value_dim, false)) {
    return false;
  }
  const bool jagged = args.kv_sequences.layout == Layout::jagged;
  const std::int64_t rows = args.k.shape[args.k.rank == 4 ? 1 : 0];
  const std::int64_t sequences = jagged ? std::max<std::int64_t>(shape.kv_batch, 1) : 1;
  return rows / sequences >= kernels::sm90::kLongKeys;
}

}  // namespace

ForwardKey forward_key(const AttentionArgs& args, const detail::CallShape& shape) {
  return {
      .element = args.q.dtype,
      .dim = static_cast<int>(shape.dim),
      .value_dim = static_cast<int>(shape.value_dim),
      .activation = args.activation,
      .mask = args.mask.kind,
      .packed_heads = kernels::sm90::packed_heads(static_cast<int>(shape.heads / shape.kv_heads)),
      .out_scales = args.out_scale_kind != OutScale::uniform,
      .long_keys = wants_long_keys(args, shape)};
}

std::string_view kernel_name(MaskKind mask) {
  return kMasks.at(static_cast<std::size_t>(mask));
}

std::string entry_of(const ForwardKey& key) {
  const kernels::sm90::ForwardShape shape = shape_of(key);
  return fmt::format(
      "jfa::kernels::sm90::forward<jfa::kernels::sm90::ForwardConfig<jfa::tlx::{}, {}, {}, "
      "jfa::kernels::Activation::{}, jfa::kernels::MaskParameters::{}, {}, {}, {}>>",
      key.element == DType::float16 ? "f16" : "bf16", shape.dim, shape.value_dim,
      kActivations.at(static_cast<std::size_t>(key.activation)), kernel_name(key.mask),
      key.packed_heads, key.out_scales, key.long_keys);
}

namespace {

void add_reasons(const ForwardArgs& args, const detail::CallShape& shape, const ForwardKey& key,
                 KernelChoice& choice) {
  auto& reasons = choice.reasons;
  const std::int64_t group = shape.heads / shape.kv_heads;
  if (group == 1) {
    reasons.emplace_back("heads not packed: every query head has its own key head");
  } else if (choice.packed_heads > 1) {
    reasons.push_back(
        fmt::format("{} of the {} query heads that share a key head share a tile: its "
                    "keys are loaded once for all",
                    choice.packed_heads, group));
  } else {
    reasons.push_back(
        fmt::format("heads not packed: no divisor of the group of {} fills the 64 "
                    "rows of a warpgroup",
                    group));
  }
  if (key.long_keys) {
    reasons.push_back(
        fmt::format("blocks of {} keys: key sequences have {} rows on average or more",
                    choice.key_block, kernels::sm90::kLongKeys));
  }
  for (const auto& [dim, padded] :
       {std::pair{shape.dim, choice.dim}, std::pair{shape.value_dim, choice.value_dim}}) {
    if (dim != padded) {
      reasons.push_back(
          fmt::format("{} columns computed for {}: the tensor core takes multiples of "
                      "16, the rest is zero",
                      padded, dim));
    }
  }
  const auto lies = [&](std::string_view name, const Rows& rows) {
    if (rows.copied != nullptr) {
      reasons.push_back(fmt::format("{} goes through an aligned copy: {}", name, rows.copied));
    }
  };
  const InputRows inputs = input_rows(args);
  lies("q", inputs.q);
  lies("k", inputs.k);
  lies("v", inputs.v);
  lies("out", output_rows(args));
  reasons.emplace_back("CPU engine not chosen: the tensors are on a GPU");
}

detail::CallShape validated(const ForwardArgs& args, std::string_view architecture) {
  const detail::CallShape shape = detail::validate_forward_shape(args);
  require_covered(args, shape, architecture);
  return shape;
}

}  // namespace
}  // namespace gpu

KernelChoice choose_forward(const ForwardArgs& args, std::string_view architecture) {
  const detail::CallShape shape = gpu::validated(args, architecture);
  const gpu::ForwardKey key = gpu::forward_key(args, shape);
  const kernels::sm90::ForwardShape tile = gpu::shape_of(key);
  KernelChoice choice;
  choice.name = "Hopper forward";
  choice.architecture = architecture;
  choice.source = gpu::kForwardSource;
  choice.entry = gpu::entry_of(key);
  choice.dim = tile.dim;
  choice.value_dim = tile.value_dim;
  choice.key_block = tile.keys;
  choice.stages = tile.stages;
  choice.packed_heads = key.packed_heads;
  choice.tile_rows = kernels::sm90::tile_tokens(tile, key.packed_heads);
  choice.threads = kernels::sm90::forward_threads(tile);
  choice.shared_bytes = kernels::sm90::forward_shared_bytes(tile);
  gpu::add_reasons(args, shape, key, choice);
  return choice;
}

std::vector<jit::KernelRequest> kernel_requests(const ForwardArgs& args,
                                                std::string_view architecture,
                                                jit::ImageKind kind) {
  const KernelChoice choice = choose_forward(args, architecture);
  const auto request = [&](std::string_view source, std::string entry) {
    return jit::KernelRequest{.source = std::string(source),
                              .entry = std::move(entry),
                              .architecture = choice.architecture,
                              .kind = kind,
                              .options = {},
                              .snippet = {}};
  };
  return {request(choice.source, choice.entry),
          request(gpu::kPlanSource, gpu::plan_entry(args.mask.kind)),
          request(gpu::kCopySource, std::string(gpu::kCopyEntry))};
}

std::string to_string(const KernelChoice& choice) {
  std::string text = fmt::format(
      "{} ({})\n"
      "instance        {}\n"
      "tile            {} query rows × {} packed heads against blocks of {} keys, {} blocks in "
      "flight; {} and {} columns\n"
      "block           {} threads, {} bytes of dynamic shared memory\n",
      choice.name, choice.source, choice.entry, choice.tile_rows, choice.packed_heads,
      choice.key_block, choice.stages, choice.dim, choice.value_dim, choice.threads,
      choice.shared_bytes);
  for (const std::string& reason : choice.reasons)
    text += fmt::format("because         {}\n", reason);
  return text;
}

}  // namespace jfa
