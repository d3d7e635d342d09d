// The same tests on every device there is: the GPU and the PTX machine.
#include "jfa/runtime.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "device/available.hpp"
#include "jfa/error.hpp"

namespace jfa::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_values(std::size_t count, float spread = 1.0F) {
  static std::mt19937 generator(std::random_device{}());
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(generator);
  }
  return values;
}

class OnDevice : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const auto reason = test::why_skipped(GetParam(), context_)) GTEST_SKIP() << *reason;
  }

  // Device memory with these values.
  Buffer upload(const std::vector<float>& values) {
    Buffer buffer(*context_, values.size() * sizeof(float));
    context_->copy(buffer.data(), values.data(), buffer.bytes());
    context_->synchronize();
    return buffer;
  }

  std::vector<float> download(const Buffer& buffer) {
    std::vector<float> values(buffer.bytes() / sizeof(float));
    context_->copy(values.data(), buffer.data(), buffer.bytes());
    context_->synchronize();
    return values;
  }

  const Kernel& vector_add() {
    return context_->kernel("examples/vector_add.cu", "jfa::examples::vector_add");
  }

  Context* context_ = nullptr;
};

TEST_P(OnDevice, CopiesAndFills) {
  const std::vector<float> values = random_values(1000);
  const Buffer first = upload(values);
  const Buffer second = upload(std::vector<float>(1000, kNan));
  context_->copy(second.data(), first.data(), first.bytes());
  EXPECT_EQ(download(second), values);

  context_->fill(static_cast<float*>(second.data()) + 10, 0, 20 * sizeof(float));
  std::vector<float> expected = values;
  std::fill_n(expected.begin() + 10, 20, 0.0F);
  EXPECT_EQ(download(second), expected);
}

TEST_P(OnDevice, NothingIsOrdinary) {
  const Buffer nothing(*context_, 0);
  EXPECT_NE(nothing.data(), nullptr);
  context_->copy(nothing.data(), nullptr, 0);
  context_->fill(nothing.data(), 1, 0);
  context_->free(nullptr);
  vector_add().launch({.grid = {0}, .block = {128}}, nothing.data(), nothing.data(), nothing.data(),
                      0);
  vector_add().launch({.grid = {1}, .block = {128}}, nothing.data(), nothing.data(), nothing.data(),
                      0);
  context_->synchronize();
}

TEST_P(OnDevice, VectorAdd) {
  for (const int count : {1, 31, 1000}) {
    const std::vector<float> a = random_values(static_cast<std::size_t>(count));
    const std::vector<float> b = random_values(static_cast<std::size_t>(count));
    const Buffer device_a = upload(a);
    const Buffer device_b = upload(b);
    const Buffer out = upload(std::vector<float>(a.size(), kNan));
    vector_add().launch({.grid = {2}, .block = {64}}, device_a.data(), device_b.data(), out.data(),
                        count);
    const std::vector<float> result = download(out);
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(result[i], a[i] + b[i]) << i;
    }
  }
}

TEST_P(OnDevice, SoftmaxRows) {
  constexpr int kRows = 7;
  for (const int columns : {1, 33, 256, 1000}) {
    const std::vector<float> in = random_values(static_cast<std::size_t>(kRows * columns), 5.0F);
    const Buffer device_in = upload(in);
    const Buffer out = upload(std::vector<float>(in.size(), kNan));
    context_->kernel("examples/softmax_rows.cu", "jfa::examples::softmax_rows<256>")
        .launch({.grid = {kRows}, .block = {256}}, device_in.data(), out.data(), columns);
    const std::vector<float> result = download(out);
    for (int row = 0; row < kRows; ++row) {
      const auto first = in.begin() + row * columns;
      const double largest = *std::max_element(first, first + columns);
      double sum = 0;
      for (int i = 0; i < columns; ++i) {
        sum += std::exp(first[i] - largest);
      }
      for (int i = 0; i < columns; ++i) {
        const double expected = std::exp(first[i] - largest) / sum;
        EXPECT_NEAR(result[static_cast<std::size_t>(row * columns + i)], expected,
                    1e-5 * expected + 1e-30)
            << row << ' ' << i;
      }
    }
  }
}

TEST_P(OnDevice, StreamsEventsAndPinnedMemory) {
  const Stream stream(*context_);
  Event start(*context_);
  Event end(*context_);
  const std::vector<float> a = random_values(4096);
  const Buffer device_a = upload(a);
  const Buffer out = upload(std::vector<float>(a.size(), kNan));
  auto* pinned = static_cast<float*>(context_->allocate_host(out.bytes()));
  start.record(stream.handle());
  vector_add().launch({.grid = {4}, .block = {128}, .stream = stream.handle()}, device_a.data(),
                      device_a.data(), out.data(), 4096);
  end.record(stream.handle());
  context_->copy(pinned, out.data(), out.bytes(), stream.handle());
  context_->synchronize(stream.handle());
  end.synchronize();
  EXPECT_GE(end.milliseconds_since(start), 0.0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(pinned[i], 2 * a[i]) << i;
  }
  context_->free_host(pinned);
}

TEST_P(OnDevice, RegisteredHostMemory) {
  std::vector<float> values = random_values(256);
  const std::vector<float> before = values;
  context_->register_host(values.data(), values.size() * sizeof(float));
  vector_add().launch({.grid = {1}, .block = {128}}, values.data(), values.data(), values.data(),
                      256);
  context_->synchronize();
  context_->unregister_host(values.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], 2 * before[i]) << i;
  }
}

TEST_P(OnDevice, KernelsAreLoadedOnceAndUsableFromOtherThreads) {
  const Kernel* first = &vector_add();
  const Kernel* other = nullptr;
  std::thread([&] {
    other = &vector_add();
    const Buffer memory = upload({1, 2, 3});
    other->launch({.grid = {1}, .block = {32}}, memory.data(), memory.data(), memory.data(), 3);
    EXPECT_EQ(download(memory), (std::vector<float>{2, 4, 6}));
  }).join();
  EXPECT_EQ(first, other);
}

TEST_P(OnDevice, ResidentBlocksAreLimitedByThreadsAndSharedMemory) {
  EXPECT_EQ(vector_add().resident_blocks(1024, 0), 2);
  EXPECT_EQ(vector_add().resident_blocks(128, 100 * 1024), 2);
  EXPECT_EQ(vector_add().resident_blocks(128, 200 * 1024), 1);
}

TEST_P(OnDevice, BadLaunchNamesKernelAndShape) {
  const Buffer memory = upload({1});
  EXPECT_THAT(
      [&] {
        vector_add().launch({.grid = {1}, .block = {2048}}, memory.data(), memory.data(),
                            memory.data(), 1);
      },
      ThrowsMessage<DeviceError>(AllOf(HasSubstr("vector_add"), HasSubstr("block 2048×1×1"))));
  EXPECT_THAT(
      [&] {
        vector_add().launch({.grid = {1}, .block = {32}, .dynamic_shared_bytes = 1 << 20},
                            memory.data(), memory.data(), memory.data(), 1);
      },
      ThrowsMessage<DeviceError>(HasSubstr("1048576 bytes of dynamic shared memory")));
}

TEST_P(OnDevice, ImpossibleAllocation) {
  EXPECT_THAT([&] { context_->allocate(std::size_t{1} << 60); },
              ThrowsMessage<DeviceError>(HasSubstr("cannot allocate")));
}

TEST_P(OnDevice, TensorMapRules) {
  const Buffer memory(*context_, 1 << 16);
  TensorMapShape shape{.element = TensorElement::bf16,
                       .rank = 2,
                       .size = {64, 128},
                       .stride_bytes = {256},
                       .box = {64, 32},
                       .swizzle = TensorSwizzle::bytes128};
  EXPECT_NE(context_->tensor_map(memory.data(), shape).words[0], 0U);
  shape.stride_bytes[0] = 24;
  EXPECT_THAT([&] { context_->tensor_map(memory.data(), shape); },
              ThrowsMessage<InvalidArgument>(HasSubstr("strides 24 bytes")));
  shape.rank = 6;
  EXPECT_THAT([&] { context_->tensor_map(memory.data(), shape); },
              ThrowsMessage<InvalidArgument>(HasSubstr("rank is 6")));
}

INSTANTIATE_TEST_SUITE_P(Devices, OnDevice, ::testing::Values("cuda:0", "emulated:sm_90a"),
                         [](const auto& instance) {
                           return std::string(instance.param).substr(0, 4);
                         });

}  // namespace
}  // namespace jfa::runtime
