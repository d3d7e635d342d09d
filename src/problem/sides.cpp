#include "problem/sides.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "jfa/error.hpp"

namespace jfa::detail {
namespace {

std::int64_t in_turn(const SequenceValues& values, std::int64_t b) {
  return values[static_cast<std::size_t>(b) % values.size()];
}

Side make_jagged(const LengthSpec& lengths, const MemorySpec& memory) {
  Side side;
  std::int64_t row = memory.offset0;
  side.offsets.push_back(row);
  for (const std::int64_t length : generate_lengths(lengths)) {
    const std::int64_t hole = in_turn(memory.holes, side.sequences());
    side.first.push_back(row);
    side.length.push_back(length);
    if (__builtin_add_overflow(row, length + hole, &row)) {
      throw InvalidArgument("problem: the lengths add up to more than 2^63 rows");
    }
    side.offsets.push_back(row);
  }
  side.stored = row + memory.slack;
  return side;
}

// `sequences`: how many the block or blocks serve.
Side make_blocks(const SequenceSpec& spec, const MemorySpec& memory, std::int64_t sequences) {
  Side side;
  side.layout = spec.layout;
  side.rows = spec.rows;
  const bool dense = spec.layout == Layout::dense;
  for (std::int64_t b = 0; b < sequences; ++b) {
    side.first.push_back(dense ? b * spec.rows : 0);
    side.length.push_back(std::max<std::int64_t>(0, spec.rows - in_turn(memory.holes, b)));
  }
  if (__builtin_mul_overflow(dense ? sequences : 1, spec.rows, &side.stored)) {
    throw InvalidArgument("problem: batch times rows is more than 2^63");
  }
  return side;
}

Side make_side(const SequenceSpec& spec, const MemorySpec& memory, std::int64_t sequences) {
  Side side = spec.layout == Layout::jagged ? make_jagged(spec.lengths, memory)
                                            : make_blocks(spec, memory, sequences);
  side.has_holes = memory.holes != SequenceValues{0};
  return side;
}

std::vector<std::int64_t> make_map(const Problem& problem, std::int64_t batch) {
  if (problem.kv_share == 0) return problem.kv_map;
  std::vector<std::int64_t> map;
  for (std::int64_t b = 0; b < batch; ++b) map.push_back(b / problem.kv_share);
  return map;
}

}  // namespace

std::int64_t Side::longest() const {
  return length.empty() ? 0 : *std::max_element(length.begin(), length.end());
}

std::int64_t Sides::kv_of(std::int64_t b) const {
  if (kv.layout == Layout::broadcast) return 0;
  return kv_map.empty() ? b : kv_map[static_cast<std::size_t>(b)];
}

std::int64_t Sides::out_row(std::int64_t b) const {
  return q.layout == Layout::jagged ? q.first[static_cast<std::size_t>(b)] : b * q.rows;
}

std::int64_t Sides::out_rows() const {
  return q.layout == Layout::jagged ? q.stored : batch * q.rows;
}

Sides make_sides(const Problem& problem) {
  const SequenceSpec& q = problem.q;
  const SequenceSpec& kv = problem.kv.value_or(q);
  Sides sides;
  sides.kv = make_side(kv, problem.memory, kv.layout == Layout::dense ? kv.batch : 1);
  if (q.layout != Layout::broadcast) {
    sides.q = make_side(q, problem.memory, q.batch);
    sides.batch = sides.q.sequences();
  } else {
    if (!problem.kv_map.empty()) {
      sides.batch = static_cast<std::int64_t>(problem.kv_map.size());
    } else if (kv.layout != Layout::broadcast) {
      sides.batch = sides.kv.sequences() * std::max<std::int64_t>(problem.kv_share, 1);
    } else if (problem.batch >= 0) {
      sides.batch = problem.batch;
    } else {
      throw InvalidArgument(
          "problem: q and kv are both broadcast; batch= tells how many sequences");
    }
    sides.q = make_side(q, problem.memory, sides.batch);
  }
  if (!problem.kv_map.empty() && static_cast<std::int64_t>(problem.kv_map.size()) != sides.batch) {
    throw InvalidArgument(fmt::format("problem: kv_map has {} entries for {} query sequences",
                                      problem.kv_map.size(), sides.batch));
  }
  sides.kv_map = make_map(problem, sides.batch);
  for (const std::int64_t target : sides.kv_map) {
    if (target >= sides.kv.sequences()) {
      throw InvalidArgument(
          fmt::format("problem: kv_map sends a query sequence to key sequence {}; "
                      "there are {}",
                      target, sides.kv.sequences()));
    }
  }
  if (sides.kv_map.empty() && kv.layout != Layout::broadcast &&
      sides.kv.sequences() != sides.batch) {
    throw InvalidArgument(
        fmt::format("problem: q has {} sequences and kv {}; the numbers must agree or kv_map= must "
                    "tell which key sequence each query sequence uses",
                    sides.batch, sides.kv.sequences()));
  }
  return sides;
}

}  // namespace jfa::detail
