// The Hopper forward kernel on every device that runs sm_90a code: a GPU, and the PTX machine with
// all its checkers. Compared with attention in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "attention/forward_arguments.h"
#include "attention/sm90/forward_shape.h"
#include "device/available.hpp"
#include "device/bf16.hpp"
#include "jfa/runtime.hpp"

namespace jfa {
namespace {

using test::from_bf16;
using test::kNan;
using test::to_bf16;

using kernels::PlanHeader;
using kernels::SequenceRows;
using kernels::TileWork;
using kernels::WorkCounters;

constexpr int kDim = 128;
constexpr kernels::sm90::ForwardShape kShape = kernels::sm90::forward_shape(kDim, kDim, false);
constexpr int kRows = kernels::sm90::tile_tokens(kShape, 1);
constexpr std::uint64_t kRaggedExtent = std::uint64_t{1} << 30;

// A batch of self-attention with `heads` heads; NaN in the rows behind the last sequence.
struct Batch {
  std::vector<int> offsets{0};
  int heads = 0;
  std::vector<std::uint16_t> q, k, v;

  Batch(const std::vector<int>& lengths, int head_count, float growth) : heads(head_count) {
    for (const int length : lengths) offsets.push_back(offsets.back() + length);
    std::mt19937 generator(std::random_device{}());
    std::normal_distribution<float> normal;
    for (auto* tensor : {&q, &k, &v}) {
      tensor->assign(static_cast<std::size_t>((offsets.back() + 8) * heads * kDim), kNan);
      for (int row = 0; row < offsets.back(); ++row) {
        // Keys that grow along a sequence raise the running maximum again and again.
        const float factor = tensor == &k ? 1 + growth * static_cast<float>(row % 400) / 400 : 1;
        for (int i = 0; i < heads * kDim; ++i) {
          (*tensor)[static_cast<std::size_t>(row * heads * kDim + i)] =
              to_bf16(normal(generator) * factor);
        }
      }
    }
  }
  int total() const { return offsets.back(); }
  double at(const std::vector<std::uint16_t>& tensor, int row, int head, int i) const {
    return static_cast<double>(
        from_bf16(tensor[static_cast<std::size_t>((row * heads + head) * kDim + i)]));
  }
};

TileWork tile_of(const std::vector<int>& offsets, int b, int sequences, int row, int rows, int keys,
                 int full) {
  TileWork tile{};
  tile.q_first = tile.out_first = offsets[b] + row;
  tile.rows = rows;
  tile.k_first = offsets[b];
  tile.k_end = tile.gap_begin = tile.gap_end = keys;
  tile.full_end = full;
  tile.sequence = b;
  tile.sequences = sequences;
  tile.q_offset = row;
  tile.q_length = tile.k_length = offsets[b + 1] - offsets[b];
  return tile;
}

std::vector<SequenceRows> sequences_of(const std::vector<int>& offsets) {
  std::vector<SequenceRows> sequences;
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
    const int length = offsets[b + 1] - offsets[b];
    sequences.push_back({offsets[b], length, offsets[b], length, offsets[b], {}});
  }
  return sequences;
}

std::vector<TileWork> tiles_of(const std::vector<int>& offsets) {
  std::vector<TileWork> tiles;
  const int count = static_cast<int>(offsets.size()) - 1;
  const auto length = [&](int b) { return offsets[b + 1] - offsets[b]; };
  for (int b = 0; b < count;) {
    int end = b + 1;
    if (length(b) > 0 && length(b) <= 64) {  // short neighbours share a tile
      while (end < count && length(end) <= 64 && offsets[end + 1] - offsets[b] <= kRows) ++end;
      const int rows = offsets[end] - offsets[b];
      const int full = end == b + 1 ? rows : 0;
      tiles.push_back(tile_of(offsets, b, end - b, 0, rows, rows, full));
    } else {
      for (int row = 0; row < length(b); row += kRows) {
        tiles.push_back(
            tile_of(offsets, b, 1, row, std::min(kRows, length(b) - row), length(b), length(b)));
      }
    }
    b = end;
  }
  return tiles;
}

class HopperForward : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const auto reason = test::why_skipped(GetParam(), context_)) GTEST_SKIP() << *reason;
    if (context_->info().architecture != "sm_90a") GTEST_SKIP() << "needs a Hopper GPU";
  }

  template <typename T>
  runtime::Buffer upload(const std::vector<T>& values) {
    runtime::Buffer buffer(*context_, std::max<std::size_t>(values.size(), 1) * sizeof(T));
    context_->copy(buffer.data(), values.data(), values.size() * sizeof(T));
    context_->synchronize();
    return buffer;
  }

  // The ragged view of [rows, heads, dim] (kernels/tlx/tma.h).
  runtime::TensorMap ragged(const runtime::Buffer& buffer, int heads, unsigned box_rows) {
    const std::uint64_t row = static_cast<std::uint64_t>(heads * kDim) * 2;
    runtime::TensorMapShape shape;
    shape.rank = 5;
    shape.size = {kDim, kRaggedExtent, static_cast<std::uint64_t>(heads), std::uint64_t{1} << 31,
                  std::uint64_t{1} << 31};
    shape.stride_bytes = {row, kDim * 2, (std::uint64_t{1} << 35) - row, row};
    shape.box = {64, box_rows, 1, 1, 1};
    shape.swizzle = runtime::TensorSwizzle::bytes128;
    return context_->tensor_map(buffer.data(), shape);
  }

  void expect_attention(const std::vector<int>& lengths, int heads, float growth = 0) {
    const Batch batch(lengths, heads, growth);
    const std::vector<TileWork> tiles = tiles_of(batch.offsets);
    const auto q = upload(batch.q), k = upload(batch.k), v = upload(batch.v);
    const auto out = upload(std::vector<std::uint16_t>(batch.q.size(), kNan));
    const auto lse = upload(std::vector<float>(static_cast<std::size_t>(batch.total() * heads),
                                               std::numeric_limits<float>::quiet_NaN()));
    // The rows behind the last sequence are left alone here; plans list them as gaps.
    const std::vector<PlanHeader> header{{static_cast<int>(tiles.size()), 0, 1000, 1}};
    const auto plan = upload(header);
    const auto work = upload(tiles), sequences = upload(sequences_of(batch.offsets));
    const auto counters = upload(std::vector<WorkCounters>(1));
    kernels::ForwardArguments arguments{};
    arguments.plan = static_cast<const PlanHeader*>(plan.data());
    arguments.tiles = static_cast<const TileWork*>(work.data());
    arguments.sequences = static_cast<const SequenceRows*>(sequences.data());
    arguments.counters = static_cast<WorkCounters*>(counters.data());
    arguments.heads = arguments.query_heads = heads;
    arguments.heads_per_kv_head = 1;
    arguments.value_dim = kDim;
    arguments.lse_head_stride = batch.total();
    arguments.lse = static_cast<float*>(lse.data());
    arguments.scale = static_cast<float>(1.4426950408889634 / std::sqrt(double{kDim}));
    arguments.out_scale = 1;
    const runtime::Kernel& kernel = context_->kernel(
        "attention/sm90/forward.cu",
        "jfa::kernels::sm90::forward<jfa::kernels::sm90::ForwardConfig<jfa::tlx::bf16, 128, 128, "
        "jfa::kernels::Activation::softmax, jfa::kernels::MaskParameters::full, 1, false, false>>");
    const unsigned shared = kernels::sm90::forward_shared_bytes(kShape);
    // Fewer CTAs than tiles, so that every CTA takes several.
    const unsigned grid = std::max<unsigned>(
        1,
        std::min<unsigned>(static_cast<unsigned>(context_->info().multiprocessors),
                           static_cast<unsigned>(tiles.size()) * static_cast<unsigned>(heads) / 3));
    kernel.launch({.grid = {grid},
                   .block = {kernels::sm90::forward_threads(kShape)},
                   .dynamic_shared_bytes = shared},
                  arguments, ragged(q, heads, 64), ragged(k, heads, kShape.keys),
                  ragged(v, heads, kShape.keys), ragged(out, heads, 64));
    std::vector<std::uint16_t> result(batch.q.size());
    std::vector<float> result_lse(static_cast<std::size_t>(batch.total() * heads));
    std::vector<WorkCounters> left(1);
    context_->copy(result.data(), out.data(), result.size() * 2);
    context_->copy(result_lse.data(), lse.data(), result_lse.size() * 4);
    context_->copy(left.data(), counters.data(), sizeof(WorkCounters));
    context_->synchronize();
    EXPECT_EQ(left[0].next, 0U);
    EXPECT_EQ(left[0].finished, 0U);
    compare(batch, result, result_lse);
  }

  static void compare(const Batch& batch, const std::vector<std::uint16_t>& out,
                      const std::vector<float>& lse) {
    double error = 0, norm = 0;
    for (std::size_t b = 0; b + 1 < batch.offsets.size(); ++b) {
      const int first = batch.offsets[b], end = batch.offsets[b + 1];
      for (int head = 0; head < batch.heads; ++head) {
        for (int row = first; row < end; ++row) {
          std::vector<double> scores;
          for (int key = first; key < end; ++key) {
            double score = 0;
            for (int i = 0; i < kDim; ++i)
              score += batch.at(batch.q, row, head, i) * batch.at(batch.k, key, head, i);
            scores.push_back(score / std::sqrt(double{kDim}));
          }
          const double top = *std::max_element(scores.begin(), scores.end());
          double sum = 0;
          for (double& score : scores) sum += score = std::exp(score - top);
          const double expected_lse = top + std::log(sum);
          ASSERT_NEAR(lse[static_cast<std::size_t>(head * batch.total() + row)], expected_lse,
                      1e-4 + 2e-6 * std::abs(expected_lse));
          for (int i = 0; i < kDim; ++i) {
            double expected = 0;
            for (int key = first; key < end; ++key) {
              expected += scores[static_cast<std::size_t>(key - first)] / sum *
                          batch.at(batch.v, key, head, i);
            }
            const double difference = batch.at(out, row, head, i) - expected;
            error += difference * difference;
            norm += expected * expected;
          }
        }
      }
    }
    EXPECT_LE(std::sqrt(error), 5e-3 * std::sqrt(norm));
    for (std::size_t i = static_cast<std::size_t>(batch.total() * batch.heads * kDim);
         i < out.size(); ++i) {
      ASSERT_EQ(out[i], kNan) << "written behind the last sequence";
    }
  }

  runtime::Context* context_ = nullptr;
};

TEST_P(HopperForward, OneShortSequence) {
  expect_attention({17}, 1);
}
TEST_P(HopperForward, ShortNeighboursShareATile) {
  expect_attention({5, 0, 40, 64, 1, 12, 3}, 2);
}
TEST_P(HopperForward, TilesAndBlocksOfEveryKind) {
  expect_attention({300, 128, 65, 20, 30, 257}, 1);
}
TEST_P(HopperForward, RisingMaximaAreDoneAgain) {
  expect_attention({400}, 1, 300);
}

INSTANTIATE_TEST_SUITE_P(Devices, HopperForward, ::testing::Values("emulated:sm_90a", "cuda:0"));

}  // namespace
}  // namespace jfa
