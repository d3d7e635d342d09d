// Offsets, used lengths and the key map, resolved to first row and length of every sequence.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "api/argument.hpp"
#include "api/resolve.hpp"
#include "api/scalar.hpp"
#include "jfa/error.hpp"

namespace jfa::detail {
namespace {

constexpr std::array kIntegerTypes = {DType::int32, DType::int64};

struct SideNames {
  std::string_view side, offsets, used_lengths;
};
constexpr SideNames kQueries = {"q_sequences", "q_sequences.offsets", "q_sequences.used_lengths"};
constexpr SideNames kKeys = {"kv_sequences", "kv_sequences.offsets", "kv_sequences.used_lengths"};

struct Segment {
  std::int64_t first = 0;
  std::int64_t length = 0;
};

std::vector<Segment> jagged_segments(std::string_view side, const Tensor& offsets,
                                     std::int64_t total) {
  std::vector<Segment> segments(static_cast<std::size_t>(offsets.shape[0] - 1));
  std::int64_t previous = integer_at(offsets, 0);
  if (previous < 0) {
    throw InvalidArgument(fmt::format("{}.offsets[0] = {} is negative", side, previous));
  }
  for (std::size_t b = 0; b < segments.size(); ++b) {
    const auto entry = static_cast<std::int64_t>(b) + 1;
    const std::int64_t next = integer_at(offsets, entry * offsets.strides[0]);
    if (next < previous) {
      throw InvalidArgument(fmt::format(
          "{}.offsets[{}] = {} is smaller than offsets[{}] = {}; offsets must not decrease", side,
          entry, next, entry - 1, previous));
    }
    segments[b] = {previous, next - previous};
    previous = next;
  }
  if (previous > total) {
    throw InvalidArgument(
        fmt::format("{}.offsets[{}] = {} exceeds the {} rows of the tensor; pass offsets in rows "
                    "(not lengths, not elements)",
                    side, segments.size(), previous, total));
  }
  return segments;
}

// Shortens segments to their used lengths.
void apply_used_lengths(std::string_view name, const Tensor& used, std::vector<Segment>& segments) {
  if (!used.present()) return;
  for (std::size_t b = 0; b < segments.size(); ++b) {
    const std::int64_t length = integer_at(used, static_cast<std::int64_t>(b) * used.strides[0]);
    if (length < 0) {
      throw InvalidArgument(
          fmt::format("{}[{}] = {} is negative; use 0 for an empty sequence", name, b, length));
    }
    segments[b].length = std::min(segments[b].length, length);
  }
}

// `count` sequences of one side; offsets have been checked with the batch.
void check_side(const SideNames& names, const Sequences& sequences, std::int64_t count) {
  if (sequences.layout != Layout::jagged && sequences.offsets.present()) {
    throw InvalidArgument(
        fmt::format("{}: present, but only the layout jagged has offsets; leave them out "
                    "or use used_lengths",
                    names.offsets));
  }
  if (!sequences.used_lengths.present()) return;
  const Argument argument{names.used_lengths, sequences.used_lengths};
  check_memory(argument);
  check_type(argument, kIntegerTypes, "cast it");
  check_shape(argument, {{"sequences", count}});
}

std::vector<Segment> segments_of(const SideNames& names, const Sequences& sequences,
                                 const Tensor& rows, std::int64_t count) {
  std::vector<Segment> segments;
  if (sequences.layout == Layout::jagged) {
    segments = jagged_segments(names.side, sequences.offsets, rows.shape[0]);
  } else {
    const std::int64_t length = rows.shape[sequences.layout == Layout::dense ? 1 : 0];
    segments.assign(static_cast<std::size_t>(count), {0, length});
  }
  apply_used_lengths(names.used_lengths, sequences.used_lengths, segments);
  return segments;
}

std::int64_t mapped(const AttentionArgs& args, const Call& call, std::int64_t b) {
  if (args.kv_sequences.layout == Layout::broadcast) return 0;
  if (!args.kv_map.present()) return b;
  const std::int64_t target = integer_at(args.kv_map, b * args.kv_map.strides[0]);
  if (target < 0 || target >= call.kv_batch) {
    throw InvalidArgument(fmt::format("kv_map[{}] = {} is outside the {} key sequences (0 … {})", b,
                                      target, call.kv_batch, call.kv_batch - 1));
  }
  return target;
}

}  // namespace

void check_sequences(const AttentionArgs& args, const CallShape& shape) {
  check_side(kQueries, args.q_sequences, shape.batch);
  check_side(kKeys, args.kv_sequences, shape.kv_batch);
}

void resolve_sequences(const AttentionArgs& args, Call& call) {
  const std::vector<Segment> queries = segments_of(kQueries, args.q_sequences, args.q, call.batch);
  const std::vector<Segment> keys = segments_of(kKeys, args.kv_sequences, args.k, call.kv_batch);
  const bool jagged = args.q_sequences.layout == Layout::jagged;
  const std::int64_t rows = jagged ? 0 : args.q.shape[args.q.rank == 4 ? 1 : 0];
  call.sequences.resize(queries.size());
  for (std::size_t i = 0; i < queries.size(); ++i) {
    SequenceView& sequence = call.sequences[i];
    sequence.index = static_cast<std::int64_t>(i);
    sequence.q_first = queries[i].first;
    sequence.q_length = queries[i].length;
    sequence.kv_index = mapped(args, call, sequence.index);
    sequence.k_first = keys[static_cast<std::size_t>(sequence.kv_index)].first;
    sequence.k_length = keys[static_cast<std::size_t>(sequence.kv_index)].length;
    sequence.out_row = jagged ? sequence.q_first : sequence.index * rows;
  }
}

}  // namespace jfa::detail
