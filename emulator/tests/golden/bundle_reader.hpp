// Reads the golden cases that bundle.py writes: kernels, arguments and what an H200 answered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tma/tensor_map.hpp"

namespace ptxemu::golden {

using Bytes = std::vector<std::byte>;

/// Global memory passed by address; starts as `initial` or, where that ends, as poison.
struct BufferArgument {
  std::uint64_t bytes = 0;
  bool output = false;
  Bytes initial;
};
struct WordArgument {
  unsigned bits = 64;
  std::uint64_t value = 0;
};
/// A tensor map over the buffer argument `buffer`.
struct MapArgument {
  unsigned buffer = 0;
  tma::TensorMap map;
};
using Argument = std::variant<BufferArgument, WordArgument, MapArgument>;

/// exact, digest (a 32-bit FNV-1a hash per 256 bytes), or per element: ulp, absolute, relative,
/// mixed.
struct Comparison {
  std::string mode;
  std::string element;
  double tolerance = 0;
};

struct Case {
  std::string name;
  std::string kernel;
  std::string ptx;
  unsigned grid = 1, block = 1, cluster = 1, shared_bytes = 0;
  Comparison comparison;
  std::vector<Argument> arguments;
  std::string fault;  // what the hardware reported; empty when it answered
  Bytes expected;
};

/// All cases of a group. Throws std::runtime_error when the bundle is not there or damaged.
std::vector<Case> read_cases(const std::string& folder, const std::string& group);

/// What is wrong with `output`, or nothing.
std::string difference(const Case& golden, const Bytes& output);

}  // namespace ptxemu::golden
