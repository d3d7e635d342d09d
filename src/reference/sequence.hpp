// One query sequence in one head, read into float64: its rows, its bias and the place of every
// element in the tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "api/call.hpp"

namespace jfa::detail {

// Row-major float64 matrix.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;

  std::span<const double> row(std::int64_t i) const {
    return {values.data() + i * columns, static_cast<std::size_t>(columns)};
  }
};

double dot(std::span<const double> a, std::span<const double> b);

class ReferenceSequence {
 public:
  ReferenceSequence(const AttentionArgs& args, const Call& call, const SequenceView& sequence,
                    std::int64_t head);

  const SequenceView& view() const { return sequence_; }
  const Matrix& q() const { return q_; }
  const Matrix& k() const { return k_; }
  const Matrix& v() const { return v_; }

  // Keys that row i sees, ascending.
  std::vector<std::int64_t> visible_keys(std::int64_t i) const;
  // scale · q(i) · k(j) + bias(i, j)
  double score(std::int64_t i, std::int64_t j) const;
  // c(i) of the contract: out_scale · out_scales[…]
  double out_scale(std::int64_t i) const;
  // Row i of a tensor shaped like out.
  Matrix out_rows(const Tensor& tensor) const;

  // First element of a row, in elements: of tensors shaped like q, k (and v), out and lse.
  std::int64_t q_row(const Tensor& tensor, std::int64_t i) const;
  std::int64_t k_row(const Tensor& tensor, std::int64_t j) const;
  std::int64_t out_row(const Tensor& tensor, std::int64_t i) const;
  std::int64_t lse_entry(const Tensor& tensor, std::int64_t i) const;

  // The entry of a bias that pair (i, j) uses, in elements; `tensor` has the bias's shape.
  std::int64_t dense_entry(const Tensor& tensor, std::int64_t i, std::int64_t j) const;
  std::int64_t slope_entry(const Tensor& tensor) const;
  std::int64_t position_entry(const Tensor& tensor, std::int64_t i, std::int64_t j) const;
  std::int64_t time_entry(const Tensor& tensor, std::int64_t i, std::int64_t j) const;
  // |p(i) − j|: minus the derivative of the bias by the ALiBi slope.
  double distance(std::int64_t i, std::int64_t j) const;

 private:
  double bias(std::int64_t i, std::int64_t j) const;

  const AttentionArgs& args_;
  const Call& call_;
  const SequenceView& sequence_;
  std::int64_t head_;
  Matrix q_;
  Matrix k_;
  Matrix v_;
};

}  // namespace jfa::detail
