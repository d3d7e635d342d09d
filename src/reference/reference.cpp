// The float64 reference: docs/contract.md as loops over every (row, key) pair.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "api/call.hpp"
#include "api/scalar.hpp"
#include "jfa/attention.hpp"
#include "reference/activation.hpp"
#include "reference/sequence.hpp"

namespace jfa {
namespace {

using detail::Call;
using detail::Matrix;
using detail::ReferenceSequence;
using detail::SequenceView;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

double* data_of(const Tensor& tensor) {
  return static_cast<double*>(tensor.data);
}

// Sets every element, those of slack rows and holes too. Absent tensors have none.
void fill(const Tensor& tensor, double value) {
  detail::for_each_index(tensor, [&](const std::array<std::int64_t, 4>& index) {
    detail::store_at(tensor, index, value);
  });
}

// One row of the attention matrix, at its visible keys only.
struct Row {
  std::vector<std::int64_t> keys;
  std::vector<double> scores;         // S
  std::vector<double> probabilities;  // P
  double lse = kMinusInfinity;        // softmax
};

Row attention_row(const AttentionArgs& args, const ReferenceSequence& sequence, std::int64_t i) {
  Row row;
  row.keys = sequence.visible_keys(i);
  for (const std::int64_t j : row.keys) row.scores.push_back(sequence.score(i, j));
  if (args.activation != Activation::softmax) {
    for (const double s : row.scores) {
      row.probabilities.push_back(detail::activate(args.activation, args.leaky_slope, s));
    }
    return row;
  }
  // Σ exp(s) = exp(m) · Σ exp(s − m) for any m; with the largest s every term lies within (0, 1].
  double largest = kMinusInfinity;
  for (const double s : row.scores) largest = std::max(largest, s);
  row.probabilities.assign(row.scores.size(), 0.0);
  if (largest == kMinusInfinity) return row;  // no key, or a bias of −∞ on all of them
  double sum = 0;
  for (const double s : row.scores) sum += std::exp(s - largest);
  row.lse = largest + std::log(sum);
  for (std::size_t n = 0; n < row.scores.size(); ++n) {
    row.probabilities[n] = std::exp(row.scores[n] - largest) / sum;  // exp(s − lse)
  }
  return row;
}

void forward_sequence(const ForwardArgs& args, const ReferenceSequence& sequence) {
  for (std::int64_t i = 0; i < sequence.view().q_length; ++i) {
    const Row row = attention_row(args, sequence, i);
    double* out = data_of(args.out) + sequence.out_row(args.out, i);
    for (std::size_t n = 0; n < row.keys.size(); ++n) {
      const auto value = sequence.v().row(row.keys[n]);
      for (std::size_t d = 0; d < value.size(); ++d) {
        out[d] += sequence.out_scale(i) * row.probabilities[n] * value[d];
      }
    }
    if (args.lse.present()) data_of(args.lse)[sequence.lse_entry(args.lse, i)] = row.lse;
  }
}

// dS of one row: the gradient of the scores at the visible keys. `g` is out_scale(i) · d_out(i).
std::vector<double> score_gradients(const AttentionArgs& args, const ReferenceSequence& sequence,
                                    const Row& row, std::span<const double> g) {
  std::vector<double> gradients;  // first dP, then dS
  for (const std::int64_t j : row.keys) gradients.push_back(detail::dot(g, sequence.v().row(j)));
  if (args.activation == Activation::softmax) {
    double mean = 0;  // Σ_j P(i,j) dP(i,j)
    for (std::size_t n = 0; n < gradients.size(); ++n) mean += row.probabilities[n] * gradients[n];
    for (std::size_t n = 0; n < gradients.size(); ++n) {
      gradients[n] = row.probabilities[n] * (gradients[n] - mean);
    }
    return gradients;
  }
  for (std::size_t n = 0; n < gradients.size(); ++n) {
    gradients[n] *= detail::activate_derivative(args.activation, args.leaky_slope, row.scores[n]);
  }
  return gradients;
}

// target[d] += factor · source[d] where the gradient is wanted.
void accumulate(const Tensor& target, std::int64_t first, double factor,
                std::span<const double> source) {
  if (!target.present()) return;
  for (std::size_t d = 0; d < source.size(); ++d) {
    data_of(target)[first + static_cast<std::int64_t>(d)] += factor * source[d];
  }
}

void accumulate_bias(const BackwardArgs& args, const ReferenceSequence& sequence, std::int64_t i,
                     std::int64_t j, double ds) {
  if (args.d_bias_dense.present()) {
    data_of(args.d_bias_dense)[sequence.dense_entry(args.d_bias_dense, i, j)] += ds;
  }
  if (args.d_alibi_slopes.present()) {
    data_of(args.d_alibi_slopes)[sequence.slope_entry(args.d_alibi_slopes)] -=
        ds * sequence.distance(i, j);
  }
  if (args.d_position_table.present()) {
    data_of(args.d_position_table)[sequence.position_entry(args.d_position_table, i, j)] += ds;
  }
  if (args.d_time_table.present()) {
    data_of(args.d_time_table)[sequence.time_entry(args.d_time_table, i, j)] += ds;
  }
}

void backward_sequence(const BackwardArgs& args, const Call& call,
                       const ReferenceSequence& sequence) {
  const Matrix d_out = sequence.out_rows(args.d_out);
  for (std::int64_t i = 0; i < sequence.view().q_length; ++i) {
    const Row row = attention_row(args, sequence, i);
    std::vector<double> g(d_out.row(i).begin(), d_out.row(i).end());
    for (double& value : g) value *= sequence.out_scale(i);
    const std::vector<double> ds = score_gradients(args, sequence, row, g);
    for (std::size_t n = 0; n < row.keys.size(); ++n) {
      const std::int64_t j = row.keys[n];
      accumulate(args.d_q, sequence.q_row(args.d_q, i), call.scale * ds[n], sequence.k().row(j));
      accumulate(args.d_k, sequence.k_row(args.d_k, j), call.scale * ds[n], sequence.q().row(i));
      accumulate(args.d_v, sequence.k_row(args.d_v, j), row.probabilities[n], g);
      accumulate_bias(args, sequence, i, j, ds[n]);
    }
  }
}

}  // namespace

void reference_forward(const ForwardArgs& args) {
  const Call call = detail::validate_reference_forward(args);
  fill(args.out, 0);
  fill(args.lse, kMinusInfinity);
  for (const SequenceView& sequence : call.sequences) {
    for (std::int64_t head = 0; head < call.heads; ++head) {
      forward_sequence(args, ReferenceSequence(args, call, sequence, head));
    }
  }
}

void reference_backward(const BackwardArgs& args) {
  const Call call = detail::validate_reference_backward(args);
  for (const Tensor* gradient :
       {&args.d_q, &args.d_k, &args.d_v, &args.d_bias_dense, &args.d_alibi_slopes,
        &args.d_position_table, &args.d_time_table}) {
    fill(*gradient, 0);
  }
  for (const SequenceView& sequence : call.sequences) {
    for (std::int64_t head = 0; head < call.heads; ++head) {
      backward_sequence(args, call, ReferenceSequence(args, call, sequence, head));
    }
  }
}

}  // namespace jfa
