#include "problem/two_pass.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "api/scalar.hpp"
#include "reference/activation.hpp"
#include "reference/sequence.hpp"

namespace jfa::detail {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

double* data_of(const Tensor& tensor) {
  return static_cast<double*>(tensor.data);
}

void fill(const Tensor& tensor, double value) {
  for_each_index(tensor,
                 [&](const std::array<std::int64_t, 4>& index) { store_at(tensor, index, value); });
}

// Rounds a float32 to the type of the inputs and back.
float rounded_to(DType dtype, float value) {
  if (dtype == DType::float16) return float_from_half(half_from_float(value));
  if (dtype == DType::bfloat16) return float_from_bfloat16(bfloat16_from_float(value));
  return value;
}

void round_all(const Tensor& tensor, DType dtype) {
  for_each_index(tensor, [&](const std::array<std::int64_t, 4>& index) {
    const auto value = static_cast<float>(real_at(tensor, index));
    store_at(tensor, index, rounded_to(dtype, value));
  });
}

float dot_float(std::span<const double> a, std::span<const double> b) {
  float sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) {
    sum += static_cast<float>(a[d]) * static_cast<float>(b[d]);
  }
  return sum;
}

double dot_magnitude(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += std::abs(a[d] * b[d]);
  return sum;
}

// A sum in float32 that is kept in a float64 tensor.
void add_float(const Tensor& tensor, std::int64_t offset, float value) {
  double& sum = data_of(tensor)[offset];
  sum = static_cast<float>(sum) + value;
}

// One row at its visible keys.
struct Row {
  std::vector<std::int64_t> keys;
  std::vector<float> scores;
  std::vector<float> probabilities;  // not rounded
  double largest_magnitude = 0;      // of scale · q · k, the products taken absolutely
  double lse = kMinusInfinity;
};

Row float_row(const AttentionArgs& args, const Call& call, const ReferenceSequence& sequence,
              std::int64_t i) {
  Row row;
  row.keys = sequence.visible_keys(i);
  const auto q = sequence.q().row(i);
  for (const std::int64_t j : row.keys) {
    const auto k = sequence.k().row(j);
    const auto scale = static_cast<float>(call.scale);
    const auto bias = static_cast<float>(sequence.score(i, j) - call.scale * dot(q, k));
    row.scores.push_back(scale * dot_float(q, k) + bias);
    row.largest_magnitude = std::max(row.largest_magnitude,
                                     std::abs(call.scale) * dot_magnitude(q, k) + std::abs(bias));
  }
  if (args.activation != Activation::softmax) {
    for (const float s : row.scores) {
      row.probabilities.push_back(
          static_cast<float>(activate(args.activation, args.leaky_slope, s)));
    }
    return row;
  }
  float largest = -std::numeric_limits<float>::infinity();
  for (const float s : row.scores) largest = std::max(largest, s);
  row.probabilities.assign(row.scores.size(), 0.0F);
  if (std::isinf(largest)) return row;
  float sum = 0;
  for (const float s : row.scores) sum += std::exp(s - largest);
  row.lse = largest + std::log(sum);
  for (std::size_t n = 0; n < row.scores.size(); ++n) {
    row.probabilities[n] = std::exp(row.scores[n] - largest) / sum;
  }
  return row;
}

// out of one row before it is rounded, and its magnitude.
struct OutRow {
  std::vector<float> values;
  std::vector<double> magnitudes;
};

OutRow float_out(const AttentionArgs& args, const Call& call, const ReferenceSequence& sequence,
                 const Row& row, std::int64_t i) {
  const auto width = static_cast<std::size_t>(call.value_dim);
  OutRow out{std::vector<float>(width), std::vector<double>(width)};
  const double scale = sequence.out_scale(i);
  for (std::size_t n = 0; n < row.keys.size(); ++n) {
    const auto v = sequence.v().row(row.keys[n]);
    const float p = rounded_to(args.q.dtype, row.probabilities[n]);
    for (std::size_t d = 0; d < width; ++d) {
      out.values[d] += p * static_cast<float>(v[d]);
      out.magnitudes[d] += std::abs(scale * row.probabilities[n] * v[d]);
    }
  }
  for (float& value : out.values) value *= static_cast<float>(scale);
  return out;
}

void forward_row(const Call& call, const ForwardArgs& rounded, const ForwardArgs& magnitude,
                 const ReferenceSequence& sequence, std::int64_t i) {
  const Row row = float_row(rounded, call, sequence, i);
  const OutRow out = float_out(rounded, call, sequence, row, i);
  const std::int64_t first = sequence.out_row(rounded.out, i);
  std::copy(out.values.begin(), out.values.end(), data_of(rounded.out) + first);
  std::copy(out.magnitudes.begin(), out.magnitudes.end(), data_of(magnitude.out) + first);
  if (!rounded.lse.present()) return;
  const std::int64_t entry = sequence.lse_entry(rounded.lse, i);
  data_of(rounded.lse)[entry] = row.lse;
  data_of(magnitude.lse)[entry] = row.keys.empty() ? 0 : 1 + row.largest_magnitude;
}

// dS at the visible keys of one row, and the magnitude of what is added up in it.
struct ScoreGradients {
  std::vector<float> values;
  std::vector<double> magnitudes;
};

ScoreGradients float_score_gradients(const BackwardArgs& args, const Call& call,
                                     const ReferenceSequence& sequence, const Row& row,
                                     std::span<const double> d_out, std::int64_t i) {
  const auto scale = static_cast<float>(sequence.out_scale(i));
  // As flash attention does: Σ_j P dP = Σ_d d_out · out, from the output as it was stored.
  float mean = 0;
  double mean_magnitude = 0;
  const OutRow out = float_out(args, call, sequence, row, i);
  for (std::size_t d = 0; d < d_out.size(); ++d) {
    const float stored = rounded_to(args.q.dtype, out.values[d]);
    mean += static_cast<float>(d_out[d]) * stored;
    mean_magnitude += std::abs(d_out[d]) * out.magnitudes[d];
  }
  ScoreGradients ds;
  for (std::size_t n = 0; n < row.keys.size(); ++n) {
    const auto v = sequence.v().row(row.keys[n]);
    const float dp = scale * dot_float(d_out, v);
    const double dp_magnitude = std::abs(scale) * dot_magnitude(d_out, v);
    if (args.activation == Activation::softmax) {
      ds.values.push_back(row.probabilities[n] * (dp - mean));
      ds.magnitudes.push_back(row.probabilities[n] * (dp_magnitude + mean_magnitude));
      continue;
    }
    const double slope = activate_derivative(args.activation, args.leaky_slope, row.scores[n]);
    ds.values.push_back(static_cast<float>(slope) * dp);
    ds.magnitudes.push_back(std::abs(slope) * dp_magnitude);
  }
  return ds;
}

// sum[d] += factor · source[d] in float32, and the same in absolute values.
void accumulate(const Tensor& sum, const Tensor& magnitude, std::int64_t first, float factor,
                double factor_magnitude, std::span<const double> source) {
  if (!sum.present()) return;
  for (std::size_t d = 0; d < source.size(); ++d) {
    const std::int64_t offset = first + static_cast<std::int64_t>(d);
    add_float(sum, offset, factor * static_cast<float>(source[d]));
    data_of(magnitude)[offset] += factor_magnitude * std::abs(source[d]);
  }
}

void accumulate_entry(const Tensor& sum, const Tensor& magnitude, std::int64_t entry, float value,
                      double value_magnitude) {
  add_float(sum, entry, value);
  data_of(magnitude)[entry] += value_magnitude;
}

void accumulate_bias(const BackwardArgs& sum, const BackwardArgs& magnitude,
                     const ReferenceSequence& sequence, std::int64_t i, std::int64_t j, float ds,
                     double size) {
  if (sum.d_bias_dense.present()) {
    const std::int64_t entry = sequence.dense_entry(sum.d_bias_dense, i, j);
    accumulate_entry(sum.d_bias_dense, magnitude.d_bias_dense, entry, ds, size);
  }
  if (sum.d_alibi_slopes.present()) {
    const std::int64_t entry = sequence.slope_entry(sum.d_alibi_slopes);
    const double distance = sequence.distance(i, j);
    accumulate_entry(sum.d_alibi_slopes, magnitude.d_alibi_slopes, entry,
                     -ds * static_cast<float>(distance), size * distance);
  }
  if (sum.d_position_table.present()) {
    const std::int64_t entry = sequence.position_entry(sum.d_position_table, i, j);
    accumulate_entry(sum.d_position_table, magnitude.d_position_table, entry, ds, size);
  }
  if (sum.d_time_table.present()) {
    const std::int64_t entry = sequence.time_entry(sum.d_time_table, i, j);
    accumulate_entry(sum.d_time_table, magnitude.d_time_table, entry, ds, size);
  }
}

void backward_row(const Call& call, const BackwardArgs& sum, const BackwardArgs& magnitude,
                  const ReferenceSequence& sequence, std::span<const double> d_out,
                  std::int64_t i) {
  const DType dtype = sum.q.dtype;
  const Row row = float_row(sum, call, sequence, i);
  const ScoreGradients ds = float_score_gradients(sum, call, sequence, row, d_out, i);
  const auto scale = static_cast<float>(call.scale);
  const double out_scale = sequence.out_scale(i);
  for (std::size_t n = 0; n < row.keys.size(); ++n) {
    const std::int64_t j = row.keys[n];
    const float factor = scale * rounded_to(dtype, ds.values[n]);
    const double size = std::abs(call.scale) * ds.magnitudes[n];
    accumulate(sum.d_q, magnitude.d_q, sequence.q_row(sum.d_q, i), factor, size,
               sequence.k().row(j));
    accumulate(sum.d_k, magnitude.d_k, sequence.k_row(sum.d_k, j), factor, size,
               sequence.q().row(i));
    const double p = row.probabilities[n];
    accumulate(sum.d_v, magnitude.d_v, sequence.k_row(sum.d_v, j),
               rounded_to(dtype, static_cast<float>(p)) * static_cast<float>(out_scale),
               std::abs(p * out_scale), d_out);
    accumulate_bias(sum, magnitude, sequence, i, j, ds.values[n], ds.magnitudes[n]);
  }
}

template <typename Visit>
void for_each_sequence(const AttentionArgs& args, const Call& call, Visit visit) {
  for (const SequenceView& sequence : call.sequences) {
    for (std::int64_t head = 0; head < call.heads; ++head) {
      visit(ReferenceSequence(args, call, sequence, head));
    }
  }
}

}  // namespace

void two_pass_forward(const Call& call, const ForwardArgs& rounded, const ForwardArgs& magnitude) {
  fill(rounded.out, 0);
  fill(rounded.lse, kMinusInfinity);
  fill(magnitude.out, 0);
  fill(magnitude.lse, 0);
  for_each_sequence(rounded, call, [&](const ReferenceSequence& sequence) {
    for (std::int64_t i = 0; i < sequence.view().q_length; ++i) {
      forward_row(call, rounded, magnitude, sequence, i);
    }
  });
  round_all(rounded.out, rounded.q.dtype);
}

void two_pass_backward(const Call& call, const BackwardArgs& rounded,
                       const BackwardArgs& magnitude) {
  for (const BackwardArgs* args : {&rounded, &magnitude}) {
    for (const Tensor* gradient :
         {&args->d_q, &args->d_k, &args->d_v, &args->d_bias_dense, &args->d_alibi_slopes,
          &args->d_position_table, &args->d_time_table}) {
      fill(*gradient, 0);
    }
  }
  for_each_sequence(rounded, call, [&](const ReferenceSequence& sequence) {
    const Matrix d_out = sequence.out_rows(rounded.d_out);
    for (std::int64_t i = 0; i < sequence.view().q_length; ++i) {
      backward_row(call, rounded, magnitude, sequence, d_out.row(i), i);
    }
  });
  for (const Tensor* gradient : {&rounded.d_q, &rounded.d_k, &rounded.d_v}) {
    round_all(*gradient, rounded.q.dtype);
  }
}

}  // namespace jfa::detail
