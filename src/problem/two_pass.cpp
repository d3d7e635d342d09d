#include "problem/two_pass.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "api/scalar.hpp"
#include "reference/activation.hpp"
#include "reference/sequence.hpp"

namespace jfa::detail {
namespace {

constexpr double kEpsilon = 0x1p-24;  // rounding of float32
// Least magnitude of a contribution: a visible pair contributes even where its P underflows, so
// that only what no pair contributes to must be exactly 0.
constexpr double kSmallest = 0x1p-64;
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

// Standard deviation of the rounding errors of a sum of products, in units of kEpsilon · 2, when
// the products have random signs.
double dot_deviation(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d] * a[d] * b[d];
  return std::sqrt(sum);
}

double dot_magnitude(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += std::abs(a[d] * b[d]);
  return sum;
}

double unit_of(DType dtype) {
  if (dtype == DType::float16) return 0x1p-11;
  return dtype == DType::bfloat16 ? 0x1p-8 : kEpsilon;
}

double square(double x) {
  return x * x;
}

// floor = ε · magnitude + 3 · √variance, in place of the magnitude.
void finish_floor(const Tensor& magnitude, const Tensor& variance) {
  for_each_index(magnitude, [&](const std::array<std::int64_t, 4>& index) {
    store_at(magnitude, index,
             kEpsilon * real_at(magnitude, index) + 3 * std::sqrt(real_at(variance, index)));
  });
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
  std::vector<double> score_errors;  // standard deviations
  std::vector<float> probabilities;  // not rounded
  std::vector<double> slopes;        // |dP/dS|; softmax: P
  double largest_error = 0;          // of the scores
  double lse = kMinusInfinity;
};

void float_scores(const Call& call, const ReferenceSequence& sequence, std::int64_t i, Row& row) {
  const auto q = sequence.q().row(i);
  const auto scale = static_cast<float>(call.scale);
  for (const std::int64_t j : row.keys) {
    const auto k = sequence.k().row(j);
    const auto bias = static_cast<float>(sequence.score(i, j) - call.scale * dot(q, k));
    const float score = scale * dot_float(q, k) + bias;
    row.scores.push_back(score);
    const double error =
        2 * kEpsilon *
        (std::abs(score) + std::abs(bias) + std::abs(call.scale) * dot_deviation(q, k));
    row.score_errors.push_back(error);
    row.largest_error = std::max(row.largest_error, error);
  }
}

void float_softmax(Row& row) {
  row.probabilities.assign(row.scores.size(), 0.0F);
  float largest = -std::numeric_limits<float>::infinity();
  for (const float s : row.scores) largest = std::max(largest, s);
  if (std::isinf(largest)) return;
  float sum = 0;
  for (const float s : row.scores) sum += std::exp(s - largest);
  row.lse = largest + std::log(sum);
  for (std::size_t n = 0; n < row.scores.size(); ++n) {
    row.probabilities[n] = std::exp(row.scores[n] - largest) / sum;
  }
}

Row float_row(const AttentionArgs& args, const Call& call, const ReferenceSequence& sequence,
              std::int64_t i) {
  Row row;
  row.keys = sequence.visible_keys(i);
  float_scores(call, sequence, i, row);
  if (args.activation == Activation::softmax) {
    float_softmax(row);
    row.slopes.assign(row.probabilities.begin(), row.probabilities.end());
    return row;
  }
  for (const float s : row.scores) {
    row.probabilities.push_back(static_cast<float>(activate(args.activation, args.leaky_slope, s)));
    row.slopes.push_back(std::abs(activate_derivative(args.activation, args.leaky_slope, s)));
  }
  return row;
}

// out of one row before it is rounded, and the parts of its floor.
struct OutRow {
  std::vector<float> values;
  std::vector<double> magnitudes;
  std::vector<double> variances;
};

OutRow float_out(const AttentionArgs& args, const Call& call, const ReferenceSequence& sequence,
                 const Row& row, std::int64_t i) {
  const auto width = static_cast<std::size_t>(call.value_dim);
  OutRow out{std::vector<float>(width), std::vector<double>(width), std::vector<double>(width)};
  const double scale = sequence.out_scale(i);
  for (std::size_t n = 0; n < row.keys.size(); ++n) {
    const auto v = sequence.v().row(row.keys[n]);
    const float p = rounded_to(args.q.dtype, row.probabilities[n]);
    for (std::size_t d = 0; d < width; ++d) {
      out.values[d] += p * static_cast<float>(v[d]);
      out.magnitudes[d] += std::abs(scale * row.probabilities[n] * v[d]) + kSmallest;
      out.variances[d] += square(scale * row.slopes[n] * row.score_errors[n] * v[d]);
    }
  }
  for (float& value : out.values) value *= static_cast<float>(scale);
  return out;
}

void forward_row(const Call& call, const TwoPass<ForwardArgs>& results,
                 const ReferenceSequence& sequence, std::int64_t i) {
  const ForwardArgs& args = results.rounded;
  const Row row = float_row(args, call, sequence, i);
  const OutRow out = float_out(args, call, sequence, row, i);
  const std::int64_t first = sequence.out_row(args.out, i);
  std::copy(out.values.begin(), out.values.end(), data_of(args.out) + first);
  std::copy(out.magnitudes.begin(), out.magnitudes.end(), data_of(results.floor.out) + first);
  std::copy(out.variances.begin(), out.variances.end(), data_of(results.variance.out) + first);
  if (!args.lse.present() || row.keys.empty()) return;
  const std::int64_t entry = sequence.lse_entry(args.lse, i);
  data_of(args.lse)[entry] = row.lse;
  data_of(results.floor.lse)[entry] = 4 + std::abs(row.lse);  // exp and log err by a few roundings
  data_of(results.variance.lse)[entry] = square(row.largest_error);
}

// dS at the visible keys of one row, and the parts of its floor.
struct ScoreGradients {
  std::vector<float> values;
  std::vector<double> magnitudes;
  std::vector<double> own_errors;     // independent from key to key
  std::vector<double> common_errors;  // of Σ P dP: the same for the whole row, times P
};

ScoreGradients softmax_gradients(const BackwardArgs& args, const Row& row, const OutRow& out,
                                 std::span<const double> d_out, std::span<const float> dp,
                                 std::span<const double> dp_magnitude) {
  // As flash attention does: Σ_j P dP = Σ_d d_out · out, from the output as it was stored.
  float mean = 0;
  double mean_magnitude = 0;
  double mean_variance = 0;
  for (std::size_t d = 0; d < d_out.size(); ++d) {
    mean += static_cast<float>(d_out[d]) * rounded_to(args.q.dtype, out.values[d]);
    mean_magnitude += std::abs(d_out[d]) * out.magnitudes[d];
    mean_variance +=
        square(d_out[d]) * (square(unit_of(args.q.dtype) * out.values[d]) + out.variances[d]);
  }
  ScoreGradients ds;
  for (std::size_t n = 0; n < row.keys.size(); ++n) {
    const double p = row.probabilities[n];
    ds.values.push_back(row.probabilities[n] * (dp[n] - mean));
    ds.magnitudes.push_back(p * (dp_magnitude[n] + mean_magnitude));
    ds.own_errors.push_back(p * row.score_errors[n] * (std::abs(dp[n]) + std::abs(mean)));
    ds.common_errors.push_back(p * std::sqrt(mean_variance));
  }
  return ds;
}

ScoreGradients elementwise_gradients(const BackwardArgs& args, const Row& row,
                                     std::span<const float> dp,
                                     std::span<const double> dp_magnitude) {
  ScoreGradients ds;
  for (std::size_t n = 0; n < row.keys.size(); ++n) {
    const double slope = activate_derivative(args.activation, args.leaky_slope, row.scores[n]);
    ds.values.push_back(static_cast<float>(slope) * dp[n]);
    ds.magnitudes.push_back(std::abs(slope) * dp_magnitude[n]);
    // No activation has a second derivative above 2; where act′ is 0, so is its neighbourhood.
    ds.own_errors.push_back(slope == 0 ? 0 : 2 * row.score_errors[n] * std::abs(dp[n]));
    ds.common_errors.push_back(0);
  }
  return ds;
}

ScoreGradients float_score_gradients(const BackwardArgs& args, const Call& call,
                                     const ReferenceSequence& sequence, const Row& row,
                                     std::span<const double> d_out, std::int64_t i) {
  const auto scale = static_cast<float>(sequence.out_scale(i));
  std::vector<float> dp;
  std::vector<double> dp_magnitude;
  for (const std::int64_t j : row.keys) {
    dp.push_back(scale * dot_float(d_out, sequence.v().row(j)));
    dp_magnitude.push_back(std::abs(scale) * dot_magnitude(d_out, sequence.v().row(j)));
  }
  if (args.activation != Activation::softmax) {
    return elementwise_gradients(args, row, dp, dp_magnitude);
  }
  const OutRow out = float_out(args, call, sequence, row, i);
  return softmax_gradients(args, row, out, d_out, dp, dp_magnitude);
}

// What one pair contributes to a sum, beside the vector that it multiplies.
struct Factor {
  float value;
  double magnitude;
  double variance;
};

// sum[d] += factor · source[d] in float32, and the parts of the floor.
void accumulate(const TwoPass<BackwardArgs>& results, Tensor BackwardArgs::*gradient,
                std::int64_t first, const Factor& factor, std::span<const double> source) {
  const Tensor& sum = results.rounded.*gradient;
  if (!sum.present()) return;
  double* magnitude = data_of(results.floor.*gradient) + first;
  double* variance = data_of(results.variance.*gradient) + first;
  for (std::size_t d = 0; d < source.size(); ++d) {
    add_float(sum, first + static_cast<std::int64_t>(d),
              factor.value * static_cast<float>(source[d]));
    magnitude[d] += factor.magnitude * std::abs(source[d]) + kSmallest;
    variance[d] += factor.variance * square(source[d]);
  }
}

// Adds one row of dS into one bias gradient. `entry` gives the element that key j uses, `weight`
// the derivative of the bias by it. Errors of keys that share an element add up within a row.
template <typename Entry, typename Weight>
void accumulate_bias(const TwoPass<BackwardArgs>& results, Tensor BackwardArgs::*gradient,
                     const Row& row, const ScoreGradients& ds, Entry entry, Weight weight) {
  const Tensor& sum = results.rounded.*gradient;
  if (!sum.present()) return;
  std::map<std::int64_t, double> row_errors;
  for (std::size_t n = 0; n < row.keys.size(); ++n) {
    const std::int64_t element = entry(sum, row.keys[n]);
    const double factor = weight(row.keys[n]);
    add_float(sum, element, static_cast<float>(factor) * ds.values[n]);
    data_of(results.floor.*gradient)[element] += std::abs(factor) * ds.magnitudes[n] + kSmallest;
    row_errors[element] += std::abs(factor) * (ds.own_errors[n] + ds.common_errors[n]);
  }
  for (const auto& [element, error] : row_errors) {
    data_of(results.variance.*gradient)[element] += square(error);
  }
}

void accumulate_biases(const TwoPass<BackwardArgs>& results, const ReferenceSequence& sequence,
                       const Row& row, const ScoreGradients& ds, std::int64_t i) {
  const auto one = [](std::int64_t) { return 1.0; };
  accumulate_bias(
      results, &BackwardArgs::d_bias_dense, row, ds,
      [&](const Tensor& t, std::int64_t j) { return sequence.dense_entry(t, i, j); }, one);
  accumulate_bias(
      results, &BackwardArgs::d_alibi_slopes, row, ds,
      [&](const Tensor& t, std::int64_t) { return sequence.slope_entry(t); },
      [&](std::int64_t j) { return -sequence.distance(i, j); });
  accumulate_bias(
      results, &BackwardArgs::d_position_table, row, ds,
      [&](const Tensor& t, std::int64_t j) { return sequence.position_entry(t, i, j); }, one);
  accumulate_bias(
      results, &BackwardArgs::d_time_table, row, ds,
      [&](const Tensor& t, std::int64_t j) { return sequence.time_entry(t, i, j); }, one);
}

void backward_row(const Call& call, const TwoPass<BackwardArgs>& results,
                  const ReferenceSequence& sequence, std::span<const double> d_out,
                  std::int64_t i) {
  const BackwardArgs& args = results.rounded;
  const DType dtype = args.q.dtype;
  const Row row = float_row(args, call, sequence, i);
  const ScoreGradients ds = float_score_gradients(args, call, sequence, row, d_out, i);
  const auto scale = static_cast<float>(call.scale);
  const double out_scale = sequence.out_scale(i);
  for (std::size_t n = 0; n < row.keys.size(); ++n) {
    const std::int64_t j = row.keys[n];
    const double variance = square(ds.own_errors[n]) + square(ds.common_errors[n]);
    const Factor score = {scale * rounded_to(dtype, ds.values[n]),
                          std::abs(call.scale) * ds.magnitudes[n], square(call.scale) * variance};
    accumulate(results, &BackwardArgs::d_q, sequence.q_row(args.d_q, i), score,
               sequence.k().row(j));
    accumulate(results, &BackwardArgs::d_k, sequence.k_row(args.d_k, j), score,
               sequence.q().row(i));
    const float p = row.probabilities[n];
    const Factor probability = {rounded_to(dtype, p) * static_cast<float>(out_scale),
                                std::abs(p * out_scale),
                                square(row.slopes[n] * row.score_errors[n] * out_scale)};
    accumulate(results, &BackwardArgs::d_v, sequence.k_row(args.d_v, j), probability, d_out);
  }
  accumulate_biases(results, sequence, row, ds, i);
}

template <typename Visit>
void for_each_sequence(const AttentionArgs& args, const Call& call, Visit visit) {
  for (const SequenceView& sequence : call.sequences) {
    for (std::int64_t head = 0; head < call.heads; ++head) {
      visit(ReferenceSequence(args, call, sequence, head));
    }
  }
}

constexpr std::array<Tensor BackwardArgs::*, 7> kGradients = {&BackwardArgs::d_q,
                                                              &BackwardArgs::d_k,
                                                              &BackwardArgs::d_v,
                                                              &BackwardArgs::d_bias_dense,
                                                              &BackwardArgs::d_alibi_slopes,
                                                              &BackwardArgs::d_position_table,
                                                              &BackwardArgs::d_time_table};

}  // namespace

void two_pass_forward(const Call& call, const TwoPass<ForwardArgs>& results) {
  for (const ForwardArgs* args : {&results.rounded, &results.floor, &results.variance}) {
    fill(args->out, 0);
    fill(args->lse, 0);
  }
  fill(results.rounded.lse, kMinusInfinity);
  for_each_sequence(results.rounded, call, [&](const ReferenceSequence& sequence) {
    for (std::int64_t i = 0; i < sequence.view().q_length; ++i) {
      forward_row(call, results, sequence, i);
    }
  });
  round_all(results.rounded.out, results.rounded.q.dtype);
  finish_floor(results.floor.out, results.variance.out);
  finish_floor(results.floor.lse, results.variance.lse);
}

void two_pass_backward(const Call& call, const TwoPass<BackwardArgs>& results) {
  for (const auto gradient : kGradients) {
    fill(results.rounded.*gradient, 0);
    fill(results.floor.*gradient, 0);
    fill(results.variance.*gradient, 0);
  }
  for_each_sequence(results.rounded, call, [&](const ReferenceSequence& sequence) {
    const Matrix d_out = sequence.out_rows(results.rounded.d_out);
    for (std::int64_t i = 0; i < sequence.view().q_length; ++i) {
      backward_row(call, results, sequence, d_out.row(i), i);
    }
  });
  for (const auto gradient : {&BackwardArgs::d_q, &BackwardArgs::d_k, &BackwardArgs::d_v}) {
    round_all(results.rounded.*gradient, results.rounded.q.dtype);
  }
  for (const auto gradient : kGradients) {
    finish_floor(results.floor.*gradient, results.variance.*gradient);
  }
}

}  // namespace jfa::detail
