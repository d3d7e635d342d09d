// What a ProblemInstance owns, for the files that implement it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "jfa/problem.hpp"
#include "problem/buffer.hpp"
#include "problem/sides.hpp"

namespace jfa {
namespace detail {

// Streams of random numbers, one a tensor: a value does not depend on what other tensors a problem
// has, nor on how they lie in memory.
enum Stream : std::uint64_t {
  kQueries = 1,
  kKeys,
  kValues,
  kOutputGradient,
  kOutScales,
  kDenseBias,
  kSlopes,
  kPositions,
  kTimes,
  kQueryTimes,
  kKeyTimes,
  kIntervals,
};

}  // namespace detail

struct ProblemInstance::Parts {
  explicit Parts(const Problem& p) : problem(p), sides(detail::make_sides(p)) {}

  // Makes room for a tensor whose shape and strides are set.
  void allocate(Tensor& tensor, std::vector<detail::Buffer>& buffers);
  void* new_memory(std::int64_t elements, DType dtype, std::vector<detail::Buffer>& buffers);
  // A row-major input.
  Tensor input(DType dtype, std::initializer_list<std::int64_t> shape);
  // A row-major result that is poisoned before every run.
  Tensor result(DType dtype, std::initializer_list<std::int64_t> shape);
  Tensor integers(const std::vector<std::int64_t>& values);

  void make_rows(Tensor& q, Tensor& k, Tensor& v, std::vector<detail::Buffer>& buffers,
                 std::vector<std::vector<Tensor>>* groups);
  void make_sequences(AttentionArgs& args);
  void make_mask(Mask& mask);
  Tensor make_intervals();
  void make_bias(Bias& bias);
  Tensor make_timestamps(const detail::Side& side, detail::Stream stream);
  void make_out_scales(AttentionArgs& args);
  Tensor out_tensor() const;
  void make_forward();
  void make_backward();

  Problem problem;
  detail::Sides sides;
  ForwardArgs forward;
  BackwardArgs backward;
  std::vector<detail::Buffer> inputs;
  std::vector<std::uint64_t> input_fingerprints;
  std::vector<detail::Buffer> results;
  std::vector<std::vector<Tensor>> result_tensors;  // those that lie in each buffer of results
  std::int64_t total_bytes = 0;
};

}  // namespace jfa
