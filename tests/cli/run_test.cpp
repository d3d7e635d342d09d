// The main job on small histories: batches, padding and the reference agree, and wrong results are
// seen.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "run/history_batch.hpp"
#include "run/result_sample.hpp"
#include "run/runner.hpp"

namespace jfa::tool {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::SizeIs;

Histories histories_of(const std::vector<std::int64_t>& lengths) {
  Histories histories;
  std::int32_t item = 0;
  for (const std::int64_t length : lengths) {
    for (std::int64_t i = 0; i < length; ++i) histories.items.push_back(item++ % 37);
    histories.offsets.push_back(static_cast<std::int64_t>(histories.items.size()));
  }
  return histories;
}

RunSettings small_settings() {
  RunSettings settings;
  settings.shape = {DType::float32, 2, 1, 8, 12, Activation::softmax, {}, 1};
  settings.shape.mask.kind = MaskKind::causal;
  settings.execution.threads = 1;
  return settings;
}

RunResult run(const Histories& histories, const RunSettings& settings) {
  return run_histories(histories, settings, {1, 1e10, 1e10, "none"});
}

const std::vector<std::int64_t> kLengths = {5, 1, 40, 17, 3, 8};

TEST(RunHistories, OneBatch) {
  const RunResult result = run(histories_of(kLengths), small_settings());
  EXPECT_EQ(result.jagged.batches, 1);
  EXPECT_EQ(result.jagged.rows, 74);
  EXPECT_EQ(result.reference_users, 6);
  EXPECT_EQ(result.reference_events, 74);
  EXPECT_THAT(result.errors, SizeIs(4));
  EXPECT_THAT(result.errors, Each(Field(&ResultError::relative, Le(4e-6))));
  ASSERT_TRUE(result.padded.has_value());
  EXPECT_EQ(result.padded->rows, 6 * 40);
  EXPECT_EQ(result.padded->measured_users, 6);
  ASSERT_TRUE(result.padded_difference.has_value());
  EXPECT_LE(*result.padded_difference, 4e-6);
}

TEST(RunHistories, ManyBatchesGiveTheSameTotals) {
  RunSettings settings = small_settings();
  const RunResult one = run(histories_of(kLengths), settings);
  settings.batch_rows = 20;
  settings.padded_bytes = 1;
  const RunResult many = run(histories_of(kLengths), settings);
  EXPECT_GE(many.jagged.batches, 3);  // users come in random order; one fills a batch alone
  EXPECT_EQ(many.padded->batches, 6);
  EXPECT_EQ(many.jagged.rows, one.jagged.rows);
  EXPECT_EQ(many.jagged.pairs, one.jagged.pairs);
  EXPECT_EQ(many.jagged.bytes, one.jagged.bytes);
  EXPECT_EQ(many.padded->pairs, one.padded->pairs);
  EXPECT_THAT(many.errors, Each(Field(&ResultError::relative, Le(4e-6))));
}

TEST(RunHistories, RunsThatTakeTooLongAreScaledUp) {
  RunSettings settings = small_settings();
  settings.batch_rows = 1;     // one user a batch
  settings.padded_bytes = 1;   // the same
  settings.time_limit = 1e-5;  // stop after the first
  const RunResult all = run(histories_of(kLengths), small_settings());
  const RunResult scaled = run(histories_of(kLengths), settings);
  EXPECT_EQ(scaled.padded->measured_users, 1);
  EXPECT_EQ(scaled.padded->rows, all.padded->rows);
  EXPECT_EQ(scaled.padded->pairs, all.padded->pairs);
  EXPECT_EQ(scaled.padded->bytes, all.padded->bytes);
  EXPECT_EQ(scaled.jagged.measured_users, 1);
  EXPECT_EQ(scaled.jagged.rows, all.jagged.rows);
  EXPECT_EQ(scaled.jagged.bytes, all.jagged.bytes);
}

TEST(RunHistories, PaddedHistoryThatTakesForEverIsNotMeasured) {
  RunSettings settings = small_settings();
  settings.time_limit = 1e-9;
  const RunResult result = run(histories_of(kLengths), settings);
  EXPECT_FALSE(result.padded.has_value());
  EXPECT_THAT(result.why_not_padded, HasSubstr("one history padded to 40 events takes"));
  EXPECT_THAT(result.errors, Each(Field(&ResultError::relative, Le(4e-6))));
}

TEST(RunHistories, BatchLargerThanMemoryIsRefused) {
  RunSettings settings = small_settings();
  const auto message = [&] {
    try {
      run(histories_of(kLengths), settings);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  settings.memory_bytes = 60 * bytes_of_row(settings.shape);
  EXPECT_THAT(message(), HasSubstr("batch of 74 events"));
  EXPECT_THAT(message(), HasSubstr("--batch-rows"));
  settings.batch_rows = 50;
  EXPECT_EQ(message(), "");
  settings.memory_bytes = 30 * bytes_of_row(settings.shape);
  settings.batch_rows = 20;
  EXPECT_THAT(message(), HasSubstr("--max-history"));
}

TEST(RunHistories, EveryTypeAndAnActivation) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    RunSettings settings = small_settings();
    settings.padded = false;
    settings.shape.dtype = dtype;
    settings.shape.activation = Activation::silu;
    settings.shape.mask.kind = MaskKind::full;
    const RunResult result = run(histories_of(kLengths), settings);
    EXPECT_FALSE(result.padded.has_value());
    EXPECT_THAT(result.errors, Each(Field(&ResultError::relative, Le(1e-2)))) << name_of(dtype);
  }
}

// The gradients of q and k cancel to zero when there is one key.
TEST(RunHistories, HistoriesOfOneEvent) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    RunSettings settings = small_settings();
    settings.shape.dtype = dtype;
    const RunResult result = run(histories_of({1, 1, 1}), settings);
    const double allowed = dtype == DType::float32 ? 2e-6 : 5e-3;
    EXPECT_THAT(result.errors, Each(Field(&ResultError::relative, Le(allowed))));
  }
}

TEST(RunHistories, NoDifferenceToPaddedIsClaimedWhereRowsSeePadding) {
  RunSettings settings = small_settings();
  settings.shape.mask.kind = MaskKind::full;
  EXPECT_FALSE(run(histories_of(kLengths), settings).padded_difference.has_value());
}

TEST(RunHistories, ReferenceStaysWithinItsBudget) {
  RunSettings settings = small_settings();
  settings.padded = false;
  const double operations_a_pair = 2 * (4 * 8 + 3 * 12);
  settings.reference_operations = 100 * operations_a_pair;  // histories up to 10 events
  const RunResult result = run(histories_of(kLengths), settings);
  EXPECT_EQ(result.reference_users, 4);  // 5² + 1² + 3² + 8² = 99
  EXPECT_EQ(result.reference_events, 17);
}

class ResultSampleTest : public ::testing::Test {
 protected:
  ResultSampleTest() {
    attention_forward(batch_.forward());
    attention_backward(batch_.backward());
  }

  ResultSample sample() const {
    ResultSample sample(4);
    sample.take(batch_, 0);
    return sample;
  }

  Histories histories_ = histories_of(kLengths);
  BatchMemory memory_;
  HistoryBatch batch_{histories_, {0, 6}, small_settings().shape, 1, 0, DType::float32, memory_};
};

TEST_F(ResultSampleTest, EqualResultsHaveNoError) {
  EXPECT_EQ(sample().difference(sample()), 0);
}

TEST_F(ResultSampleTest, OneWrongElementIsSeen) {
  const ResultSample before = sample();
  const BackwardArgs args = batch_.backward();
  static_cast<float*>(batch_.rows_of(args.d_k, 2).data)[5] += 0.5F;
  const std::vector<ResultError> errors = before.errors_of(sample());
  EXPECT_EQ(errors[0].worst, 0);  // out
  EXPECT_NEAR(errors[2].worst, 0.5, 1e-5);
  EXPECT_GT(errors[2].relative, 1e-3);
}

TEST_F(ResultSampleTest, NaNIsSeen) {
  const ResultSample before = sample();
  static_cast<float*>(batch_.rows_of(batch_.forward().out, 3).data)[0] =
      std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(before.errors_of(sample())[0].relative));
  EXPECT_TRUE(std::isnan(before.difference(sample())));
}

TEST_F(ResultSampleTest, OtherUsersAreNotCompared) {
  const ResultSample before = sample();
  static_cast<float*>(batch_.rows_of(batch_.forward().out, 4).data)[0] += 1;
  EXPECT_EQ(before.difference(sample()), 0);
}

TEST(HistoryBatch, BytesOfARow) {
  const Histories histories = histories_of(kLengths);
  for (const Activation activation : {Activation::softmax, Activation::silu}) {
    AttentionShape shape = small_settings().shape;
    shape.dtype = DType::bfloat16;
    shape.activation = activation;
    BatchMemory memory;
    const HistoryBatch batch(histories, {0, 6}, shape, 1, 0, shape.dtype, memory);
    EXPECT_EQ(batch.bytes(), 74 * bytes_of_row(shape));
  }
}

TEST(HistoryBatch, ResultsStartAsNaNInMemoryThatIsUsedAgain) {
  const Histories histories = histories_of(kLengths);
  const AttentionShape shape = small_settings().shape;
  BatchMemory memory;
  for (int round = 0; round < 2; ++round) {
    const HistoryBatch batch(histories, {0, 6}, shape, 1, 0, shape.dtype, memory);
    auto* out = static_cast<float*>(batch.forward().out.data);
    EXPECT_TRUE(std::isnan(out[0]));
    attention_forward(batch.forward());
    EXPECT_FALSE(std::isnan(out[0]));
  }
}

TEST(HistoryBatch, InputsDependOnItemAndSeedOnly) {
  const Histories histories = histories_of(kLengths);
  const AttentionShape shape = small_settings().shape;
  std::array<BatchMemory, 4> memory;
  const HistoryBatch all(histories, {0, 6}, shape, 1, 0, DType::float32, memory[0]);
  const HistoryBatch later(histories, {2, 4}, shape, 1, 0, DType::float32, memory[1]);
  const HistoryBatch padded(histories, {0, 6}, shape, 1, 50, DType::float32, memory[2]);
  const HistoryBatch other(histories, {0, 6}, shape, 2, 0, DType::float32, memory[3]);
  const auto first = [](const HistoryBatch& batch, std::int64_t user) {
    return static_cast<const float*>(batch.rows_of(batch.forward().q, user).data)[0];
  };
  EXPECT_EQ(first(all, 3), first(later, 1));
  EXPECT_EQ(first(all, 3), first(padded, 3));
  EXPECT_NE(first(all, 3), first(other, 3));
  EXPECT_NE(first(all, 3), first(all, 2));
}

}  // namespace
}  // namespace jfa::tool
