// Shapes and types of the additive biases.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "api/argument.hpp"
#include "api/resolve.hpp"
#include "api/scalar.hpp"
#include "jfa/error.hpp"

namespace jfa::detail {
namespace {

constexpr std::array kFloatTypes = {DType::float32, DType::bfloat16, DType::float16,
                                    DType::float64};

void check_table_type(Argument argument, Purpose purpose) {
  check_memory(argument);
  if (purpose == Purpose::reference) {
    check_type(argument, std::array{DType::float32, DType::float64}, "cast it");
  } else {
    check_type(argument, std::array{DType::float32}, "cast it");
  }
}

void check_dense(const AttentionArgs& args, const CallShape& shape, Purpose purpose) {
  const Argument dense{"bias.dense", args.bias.dense};
  if (!args.bias.dense.present()) return;
  check_memory(dense);
  if (purpose == Purpose::reference) {
    check_type(dense, kFloatTypes, "cast it");
  } else {
    const std::array types = {DType::float32, args.q.dtype};
    const std::size_t count = args.q.dtype == DType::float32 ? 1 : 2;
    check_type(dense, std::span(types).first(count), "cast it to float32 or the type of q");
  }
  check_shape(dense, {{"batch", shape.batch, Extent::or_one},
                      {"Hq", shape.heads, Extent::or_one},
                      {"longest q"},
                      {"longest kv"}});
}

void check_alibi(const Bias& bias, const CallShape& shape, Purpose purpose) {
  if (!bias.alibi_slopes.present()) return;
  const Argument slopes{"bias.alibi_slopes", bias.alibi_slopes};
  check_table_type(slopes, purpose);
  if (bias.alibi_slopes.rank == 1) {
    check_shape(slopes, {{"Hq", shape.heads}});
  } else {
    check_shape(slopes, {{"batch", shape.batch}, {"Hq", shape.heads}});
  }
}

void check_position_table(const Bias& bias, const CallShape& shape, Purpose purpose) {
  if (!bias.position_table.present()) return;
  const Argument table{"bias.position_table", bias.position_table};
  check_table_type(table, purpose);
  check_shape(table, {{"Hq", shape.heads, Extent::or_one}, {"2n − 1"}});
  if (bias.position_table.shape[1] % 2 == 1) return;
  throw InvalidArgument(
      fmt::format("bias.position_table: shape {} has an even number of entries; it holds distances "
                  "−(n−1) … n−1, which are 2n − 1",
                  shape_of(bias.position_table)));
}

void check_timestamps(Argument stamps, std::string_view rows_name, std::int64_t rows, bool needed) {
  const auto& [name, tensor] = stamps;
  if (tensor.present() != needed) {
    throw InvalidArgument(
        fmt::format("{}: {}", name,
                    needed ? "missing; bias.time_table needs one int64 time stamp a row"
                           : "present without bias.time_table, which alone uses it; leave it out"));
  }
  if (!needed) return;
  check_memory(stamps);
  check_type(stamps, std::array{DType::int64}, "cast it");
  check_shape(stamps, {{rows_name, rows}});
}

void check_time_table(const AttentionArgs& args, const CallShape& shape, Purpose purpose) {
  const Bias& bias = args.bias;
  const bool present = bias.time_table.present();
  if (present) {
    const Argument table{"bias.time_table", bias.time_table};
    check_table_type(table, purpose);
    check_shape(table, {{"Hq", shape.heads, Extent::or_one}, {"buckets", 1, Extent::at_least}});
    if (!std::isfinite(bias.time_scale) || bias.time_scale <= 0) {
      throw InvalidArgument(
          fmt::format("bias.time_scale: {}; it must be a finite number above 0", bias.time_scale));
    }
  }
  check_timestamps({"bias.q_timestamps", bias.q_timestamps}, "query rows",
                   stored_rows(args.q, args.q_sequences.layout), present);
  check_timestamps({"bias.kv_timestamps", bias.kv_timestamps}, "key rows",
                   stored_rows(args.k, args.kv_sequences.layout), present);
}

}  // namespace

void check_bias(const AttentionArgs& args, const CallShape& shape, Purpose purpose) {
  check_dense(args, shape, purpose);
  check_alibi(args.bias, shape, purpose);
  check_position_table(args.bias, shape, purpose);
  check_time_table(args, shape, purpose);
}

void check_bias_extent(const AttentionArgs& args, const Call& call) {
  if (!args.bias.dense.present()) return;
  std::int64_t longest_q = 0;
  std::int64_t longest_k = 0;
  for (const SequenceView& sequence : call.sequences) {
    longest_q = std::max(longest_q, sequence.q_length);
    longest_k = std::max(longest_k, sequence.k_length);
  }
  check_shape({"bias.dense", args.bias.dense}, {{"batch", call.batch, Extent::or_one},
                                                {"Hq", call.heads, Extent::or_one},
                                                {"longest q", longest_q, Extent::at_least},
                                                {"longest kv", longest_k, Extent::at_least}});
}

}  // namespace jfa::detail
