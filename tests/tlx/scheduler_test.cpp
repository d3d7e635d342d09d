// Schedulers of the tile language on every device: each role sees each tile once.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "device/available.hpp"
#include "jfa/runtime.hpp"
#include "tlx/kernel_folder.hpp"

namespace jfa {
namespace {

constexpr unsigned kWarps = 4;

class Scheduler : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    folder_ =
        std::make_unique<test::KernelFolder>(std::filesystem::path("tests") / "tlx" / "kernels");
  }
  static void TearDownTestSuite() { folder_.reset(); }

  void SetUp() override {
    if (const auto reason = test::why_skipped(GetParam(), context_)) GTEST_SKIP() << *reason;
    if (context_->info().architecture != "sm_90a") GTEST_SKIP() << "needs a Hopper GPU";
  }

  runtime::Buffer zeros(std::size_t count) {
    runtime::Buffer buffer(*context_, (count + 1) * 4);
    context_->fill(buffer.data(), 0, buffer.bytes());
    return buffer;
  }
  std::vector<std::uint32_t> download(const runtime::Buffer& buffer) {
    std::vector<std::uint32_t> values(buffer.bytes() / 4);
    context_->copy(values.data(), buffer.data(), buffer.bytes());
    context_->synchronize();
    return values;
  }
  // `launches`: how often every warp went through all tiles.
  static void expect_each(const std::vector<std::uint32_t>& counts, unsigned tiles,
                          unsigned launches) {
    for (unsigned i = 0; i < kWarps * tiles; ++i) {
      ASSERT_EQ(counts[i], launches) << "warp " << i / tiles << ", tile " << i % tiles;
    }
    EXPECT_EQ(counts[kWarps * std::size_t{tiles}], 0U) << "a tile beyond the last";
  }

  static inline std::unique_ptr<test::KernelFolder> folder_;
  runtime::Context* context_ = nullptr;
};

TEST_P(Scheduler, AtomicTilesAndTheCounterIsZeroAgain) {
  const auto& kernel = context_->kernel("kernels/schedule.cu", "jfa::test::count_atomic");
  for (const unsigned tiles : {0U, 1U, 3U, 40U}) {
    const auto counter = zeros(1), counts = zeros(kWarps * std::size_t{tiles});
    for (int launch = 0; launch < 2; ++launch) {
      kernel.launch({.grid = {4}, .block = {kWarps * 32}}, counter.data(), counts.data(), tiles);
    }
    expect_each(download(counts), tiles, 2);
    EXPECT_EQ(download(counter)[0], 0U);
  }
}

TEST_P(Scheduler, StaticTiles) {
  const auto& kernel = context_->kernel("kernels/schedule.cu", "jfa::test::count_static");
  for (const unsigned tiles : {0U, 1U, 3U, 40U}) {
    const auto counts = zeros(kWarps * std::size_t{tiles});
    kernel.launch({.grid = {4}, .block = {kWarps * 32}}, counts.data(), tiles);
    expect_each(download(counts), tiles, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Scheduler, ::testing::Values("emulated:sm_90a", "cuda:0"));

}  // namespace
}  // namespace jfa
