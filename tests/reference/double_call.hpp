// A problem's call with every real input and result in float64, so that derivatives can be taken
// numerically.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "api/scalar.hpp"
#include "jfa/jfa.hpp"

namespace jfa::testing {

class DoubleCall {
 public:
  // `instance` must outlive this; it keeps the offsets and other integers.
  explicit DoubleCall(const ProblemInstance& instance) : backward_(instance.backward()) {
    for (Tensor* tensor :
         {&backward_.q, &backward_.k, &backward_.v, &backward_.d_out, &backward_.out_scales,
          &backward_.bias.dense, &backward_.bias.alibi_slopes, &backward_.bias.position_table,
          &backward_.bias.time_table}) {
      *tensor = copied(*tensor);
    }
    forward_ = ForwardArgs{backward_, like(instance.forward().out), like(instance.forward().lse)};
    backward_.out = {};
    backward_.lse = {};
    for (Tensor* tensor :
         {&backward_.d_q, &backward_.d_k, &backward_.d_v, &backward_.d_bias_dense,
          &backward_.d_alibi_slopes, &backward_.d_position_table, &backward_.d_time_table}) {
      *tensor = like(*tensor);
    }
  }

  const ForwardArgs& forward() const { return forward_; }
  const BackwardArgs& backward() const { return backward_; }

  // Σ d_out · out over everything: the number whose gradient backward computes.
  double objective() const {
    reference_forward(forward_);
    double sum = 0;
    detail::for_each_index(forward_.out, [&](const std::array<std::int64_t, 4>& index) {
      const double weight = detail::real_at(backward_.d_out, index);
      const double out = detail::real_at(forward_.out, index);
      if (out != 0) sum += weight * out;  // d_out is NaN where no sequence is; out is 0 there
    });
    return sum;
  }

 private:
  Tensor like(const Tensor& tensor) {
    if (!tensor.present()) return {};
    Tensor copy = tensor;
    copy.dtype = DType::float64;
    std::int64_t stride = 1;
    for (std::size_t axis = static_cast<std::size_t>(tensor.rank); axis-- > 0;) {
      copy.strides[axis] = stride;
      stride *= std::max<std::int64_t>(tensor.shape[axis], 1);
    }
    copy.data = storage_.emplace_back(static_cast<std::size_t>(tensor.elements())).data();
    return copy;
  }

  Tensor copied(const Tensor& tensor) {
    const Tensor copy = like(tensor);
    detail::for_each_index(tensor, [&](const std::array<std::int64_t, 4>& index) {
      detail::store_at(copy, index, detail::real_at(tensor, index));
    });
    return copy;
  }

  std::deque<std::vector<double>> storage_;
  ForwardArgs forward_;
  BackwardArgs backward_;
};

}  // namespace jfa::testing
