// Where the rows of one side of a problem (queries, or keys and values) lie.
#pragma once

#include <cstdint>
#include <vector>

#include "jfa/problem.hpp"

namespace jfa::detail {

struct Side {
  Layout layout = Layout::jagged;
  std::vector<std::int64_t> first;    // first stored row of each sequence (dense: b · rows)
  std::vector<std::int64_t> length;   // used rows of each sequence
  std::vector<std::int64_t> offsets;  // jagged: [sequences + 1]
  bool has_holes = false;
  std::int64_t rows = 0;    // dense and broadcast: rows of a block
  std::int64_t stored = 0;  // rows in memory

  std::int64_t sequences() const { return static_cast<std::int64_t>(first.size()); }
  std::int64_t longest() const;
};

struct Sides {
  Side q;
  Side kv;
  std::int64_t batch = 0;
  std::vector<std::int64_t> kv_map;  // empty: sequence b uses key sequence b (broadcast keys: 0)

  // The key sequence that query sequence b uses.
  std::int64_t kv_of(std::int64_t b) const;
  // Row of `out` where query sequence b begins, and the number of its rows.
  std::int64_t out_row(std::int64_t b) const;
  std::int64_t out_rows() const;
};

// Generates the lengths and lays the rows out. Throws InvalidArgument.
Sides make_sides(const Problem& problem);

}  // namespace jfa::detail
