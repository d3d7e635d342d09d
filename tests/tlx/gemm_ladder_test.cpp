// The matrix products of examples/tlx on every device that runs sm_90a code: a GPU, and the PTX
// machine with all its checkers. Compared with float64, at sizes that no tile divides.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device/available.hpp"
#include "device/bf16.hpp"
#include "jfa/runtime.hpp"
#include "tlx/kernel_folder.hpp"

namespace jfa {
namespace {

using test::from_bf16;
using test::kNan;
using test::to_bf16;

constexpr unsigned kRows = 128, kColumns = 256;  // of a tile
constexpr unsigned kSharedBytes = 227 * 1024;    // at least what each step needs
unsigned tiles(unsigned extent, unsigned tile) {
  return (extent + tile - 1) / tile;
}

class GemmLadder : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<test::KernelFolder>(std::filesystem::path("examples") / "tlx");
  }
  static void TearDownTestSuite() { folder_.reset(); }

  void SetUp() override {
    if (const auto reason = test::why_skipped(GetParam(), context_)) GTEST_SKIP() << *reason;
    if (context_->info().architecture != "sm_90a") GTEST_SKIP() << "needs a Hopper GPU";
  }

  // C starts as NaN; behind every matrix lie rows of NaN.
  struct Problem {
    unsigned m, n, k;
    std::vector<std::uint16_t> a, b, c;

    Problem(unsigned rows, unsigned columns, unsigned depth) : m(rows), n(columns), k(depth) {
      std::mt19937 generator(std::random_device{}());
      std::normal_distribution<float> normal;
      a.assign((m + 2) * k, kNan);
      b.assign((n + 2) * k, kNan);
      c.assign((m + 2) * n, kNan);
      for (unsigned i = 0; i < m * k; ++i) a[i] = to_bf16(normal(generator));
      for (unsigned i = 0; i < n * k; ++i) b[i] = to_bf16(normal(generator));
    }
  };

  runtime::Buffer upload(const std::vector<std::uint16_t>& values) {
    runtime::Buffer buffer(*context_, values.size() * 2);
    context_->copy(buffer.data(), values.data(), values.size() * 2);
    context_->synchronize();
    return buffer;
  }

  runtime::TensorMap map(const runtime::Buffer& buffer, unsigned rows, unsigned columns,
                         unsigned box_rows) {
    runtime::TensorMapShape shape;
    shape.rank = 2;
    shape.size = {columns, rows};
    shape.stride_bytes = {std::uint64_t{columns} * 2};
    shape.box = {64, box_rows};
    shape.swizzle = runtime::TensorSwizzle::bytes128;
    return context_->tensor_map(buffer.data(), shape);
  }

  const runtime::Kernel& kernel(const std::string& file, const std::string& entry) {
    return context_->kernel("kernels/" + file, "jfa::examples::" + entry);
  }

  static void compare(const Problem& p, const std::vector<std::uint16_t>& c) {
    double worst = 0, error = 0, norm = 0;
    for (unsigned row = 0; row < p.m; ++row) {
      for (unsigned column = 0; column < p.n; ++column) {
        double expected = 0;
        for (unsigned i = 0; i < p.k; ++i) {
          expected +=
              double{from_bf16(p.a[row * p.k + i])} * double{from_bf16(p.b[column * p.k + i])};
        }
        const double difference = double{from_bf16(c[row * p.n + column])} - expected;
        ASSERT_FALSE(std::isnan(difference)) << "row " << row << ", column " << column;
        // Half a unit of bfloat16, and float32 sums of k terms of size 1.
        worst = std::max(worst, std::abs(difference) - std::abs(expected) / 256 - 1e-4);
        error += difference * difference;
        norm += expected * expected;
      }
    }
    EXPECT_LE(worst, 0);
    EXPECT_LE(std::sqrt(error), 2.5e-3 * std::sqrt(norm));
    for (std::size_t i = std::size_t{p.m} * p.n; i < c.size(); ++i) {
      ASSERT_EQ(c[i], kNan) << "written behind the last row";
    }
  }

  std::vector<std::uint16_t> download(const runtime::Buffer& buffer) {
    std::vector<std::uint16_t> values(buffer.bytes() / 2);
    context_->copy(values.data(), buffer.data(), buffer.bytes());
    context_->synchronize();
    return values;
  }

  void expect_naive(const Problem& p) {
    const auto a = upload(p.a), b = upload(p.b), c = upload(p.c);
    kernel("gemm_1_naive.cu", "gemm_naive")
        .launch({.grid = {tiles(p.m, kRows), tiles(p.n, kColumns)},
                 .block = {256},
                 .dynamic_shared_bytes = kSharedBytes},
                a.data(), b.data(), c.data(), p.m, p.n, p.k);
    compare(p, download(c));
  }

  void expect_grid(const Problem& p, const std::string& file, const std::string& entry,
                   unsigned threads) {
    const auto a = upload(p.a), b = upload(p.b), c = upload(p.c);
    kernel(file, entry)
        .launch({.grid = {tiles(p.m, kRows), tiles(p.n, kColumns)},
                 .block = {threads},
                 .dynamic_shared_bytes = kSharedBytes},
                map(a, p.m, p.k, 128), map(b, p.n, p.k, 128), map(c, p.m, p.n, 64), p.k);
    compare(p, download(c));
  }

  void expect_persistent(const Problem& p, unsigned grid) {
    const auto a = upload(p.a), b = upload(p.b), c = upload(p.c);
    kernel("gemm_4_persistent.cu", "gemm_persistent")
        .launch(
            {.grid = {grid}, .block = {384}, .cluster = {2}, .dynamic_shared_bytes = kSharedBytes},
            map(a, p.m, p.k, 128), map(b, p.n, p.k, 128), map(c, p.m, p.n, 64), p.m, p.n, p.k);
    compare(p, download(c));
  }

  static inline std::unique_ptr<test::KernelFolder> folder_;
  runtime::Context* context_ = nullptr;
};

TEST_P(GemmLadder, Naive) {
  expect_naive({150, 264, 136});
}
TEST_P(GemmLadder, Tma) {
  expect_grid({150, 264, 360}, "gemm_2_tma.cu", "gemm_tma", 256);
}
TEST_P(GemmLadder, WarpSpecialised) {
  expect_grid({150, 264, 360}, "gemm_3_specialised.cu", "gemm_specialised", 384);
}
TEST_P(GemmLadder, Persistent) {
  expect_persistent({300, 520, 200}, 2);  // several tiles a cluster, of one that is half empty
}
TEST_P(GemmLadder, PersistentWithIdleClusters) {
  expect_persistent({64, 64, 72}, 4);
}

INSTANTIATE_TEST_SUITE_P(Devices, GemmLadder, ::testing::Values("emulated:sm_90a", "cuda:0"));

}  // namespace
}  // namespace jfa
