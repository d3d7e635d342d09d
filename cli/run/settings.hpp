// What `jfa run` computes, as asked for on the command line.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "jfa/attention.hpp"

namespace jfa::tool {

// Attention over user histories: self-attention, every event is one query and one key.
struct AttentionShape {
  DType dtype = DType::float32;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 4;
  std::int64_t dim = 64;
  std::int64_t value_dim = 64;
  Activation activation = Activation::softmax;
  Mask mask;
  double out_scale = 1;  // elementwise activations: 1 / longest history, as HSTU does
};

struct RunSettings {
  AttentionShape shape;
  Execution execution;
  std::uint64_t seed = 1;
  // Histories are processed in batches of about this many rows, like the steps of a training run.
  std::int64_t batch_rows = std::int64_t{1} << 17;
  bool padded = true;
  // Each layout is measured about this long, on users chosen at random; infinity: on all users.
  double time_limit = 60;                                         // seconds
  double memory_bytes = std::numeric_limits<double>::infinity();  // that the tensors may take
  double padded_bytes = double{1ULL << 28};                       // tensors of one padded batch
  double reference_operations = 4e9;  // multiply-adds that the reference may cost
};

}  // namespace jfa::tool
