// Length generators: lists, files, and distributions that must never change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "jfa/jfa.hpp"

namespace jfa {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Lengths = std::vector<std::int64_t>;

Lengths lengths(const std::string& text) {
  return generate_lengths({text});
}

double mean(const Lengths& values) {
  return static_cast<double>(std::accumulate(values.begin(), values.end(), std::int64_t{0})) /
         static_cast<double>(values.size());
}

std::string refusal(const std::string& text) {
  try {
    generate_lengths({text});
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return {};
}

TEST(Lengths, Lists) {
  EXPECT_THAT(lengths("17,0,513"), ElementsAre(17, 0, 513));
  EXPECT_THAT(lengths("2x3,5,7x0"), ElementsAre(2, 2, 2, 5));
  EXPECT_TRUE(lengths("").empty());
}

TEST(Lengths, UniformFillsAsItSays) {
  EXPECT_THAT(lengths("uniform:batch=3,max=9,fill=1"), ElementsAre(9, 9, 9));
  for (const double fill : {0.1, 0.5, 0.7}) {
    const Lengths values =
        lengths("uniform:batch=20000,max=2048,seed=3,fill=" + std::to_string(fill));
    EXPECT_NEAR(mean(values) / 2048, fill, 0.01);
    EXPECT_GE(*std::min_element(values.begin(), values.end()), 1);
    EXPECT_LE(*std::max_element(values.begin(), values.end()), 2048);
  }
}

// The published MovieLens-20M fit: mean about 145 and median about 62 when clipped at 1000.
TEST(Lengths, LognormalIsTheMovieLensFit) {
  Lengths values = lengths("lognormal:batch=20000,clip=1000,seed=2");
  std::sort(values.begin(), values.end());
  EXPECT_NEAR(mean(values), 142, 8);
  EXPECT_NEAR(static_cast<double>(values[10000]), 62, 3);
  EXPECT_EQ(values.back(), 1000);
  const Lengths reviews =
      lengths("lognormal:batch=5000,clip=773,sigma=1,scale=7,loc=0,min=5,seed=5");
  EXPECT_EQ(*std::min_element(reviews.begin(), reviews.end()), 5);
  EXPECT_NEAR(mean(reviews), 12, 1);
}

TEST(Lengths, ZipfHasTheTailItShould) {
  const Lengths values = lengths("zipf:batch=50000,clip=4096,a=1.5,seed=6");
  const auto at_least = [&](std::int64_t n) {
    return static_cast<double>(
               std::count_if(values.begin(), values.end(), [&](auto v) { return v >= n; })) /
           static_cast<double>(values.size());
  };
  EXPECT_NEAR(at_least(4), 0.5, 0.01);  // P(length ≥ n) = n^(1 − a)
  EXPECT_NEAR(at_least(100), 0.1, 0.01);
}

// The same numbers on every platform and in every version: results that were reported with a
// generator stay reproducible.
TEST(Lengths, NeverChange) {
  EXPECT_EQ(lengths("uniform:batch=6,max=1000,seed=1"), lengths("uniform:batch=6,max=1000"));
  EXPECT_NE(lengths("uniform:batch=6,max=1000,seed=1"), lengths("uniform:batch=6,max=1000,seed=2"));
  EXPECT_THAT(lengths("uniform:batch=4,max=1000,seed=1"), ElementsAre(361, 10, 757, 286));
  EXPECT_THAT(lengths("lognormal:batch=4,seed=1"), ElementsAre(187, 36, 21, 74));
  EXPECT_THAT(lengths("zipf:batch=4,seed=1"), ElementsAre(91, 3, 1, 37));
}

class LengthFile : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::path(::testing::TempDir()) / "jfa_lengths_test.txt";
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& text) { std::ofstream(path_) << text; }
  std::string spec() const { return std::string("@").append(path_.string()); }

  std::filesystem::path path_;
};

TEST_F(LengthFile, OneLengthALine) {
  write("# lengths\n3\n\n 0 \r\n12\n");
  EXPECT_THAT(lengths(spec()), ElementsAre(3, 0, 12));
}

TEST_F(LengthFile, ErrorsNameTheLine) {
  write("3\n-4\n");
  EXPECT_THAT(refusal(spec()), HasSubstr(":2:"));
  write("3\n4 5\n");
  EXPECT_THAT(refusal(spec()), HasSubstr("one length a line"));
}

TEST(Lengths, MissingFilesAndBadTextAreRefused) {
  EXPECT_THAT(refusal("@/dev/zero"), HasSubstr("longer than 255 characters"));
  EXPECT_THAT(refusal("@/"), HasSubstr("cannot be read"));
  EXPECT_THAT(refusal("@/no/such/file"), HasSubstr("cannot read the file '/no/such/file'"));
  EXPECT_THAT(refusal("gauss:batch=3"), HasSubstr("lognormal"));
  EXPECT_THAT(refusal("uniform:batch=3,maximum=4"), HasSubstr("fill"));
  EXPECT_THAT(refusal("uniform:batch=-3"), HasSubstr("batch"));
  EXPECT_THAT(refusal("9x99999999999"), HasSubstr("whole number"));
}

}  // namespace
}  // namespace jfa
