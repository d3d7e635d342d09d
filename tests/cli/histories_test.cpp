// Histories: order, truncation, sampling, statistics.
#include "events/histories.hpp"

#include <gmock/gmock.h>

namespace jfa::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

EventLog log_of(std::vector<Event> events, std::int64_t users) {
  EventLog log;
  log.events = std::move(events);
  log.users = users;
  return log;
}

TEST(Histories, SortedByUserThenTimeAndStable) {
  const EventLog log =
      log_of({{1, 10, 5}, {0, 11, 2}, {1, 12, 1}, {0, 13, 2}, {1, 14, 5}, {0, 15, 1}}, 2);
  const Histories histories = build_histories(log, 0);
  EXPECT_THAT(histories.offsets, ElementsAre(0, 3, 6));
  EXPECT_THAT(histories.items, ElementsAre(15, 11, 13, 12, 10, 14));
}

TEST(Histories, KeepsTheNewestEvents) {
  const EventLog log = log_of({{0, 1, 1}, {0, 2, 2}, {0, 3, 3}, {1, 4, 1}}, 2);
  const Histories histories = build_histories(log, 2);
  EXPECT_THAT(histories.offsets, ElementsAre(0, 2, 3));
  EXPECT_THAT(histories.items, ElementsAre(2, 3, 4));
}

TEST(Histories, EmptyLog) {
  const Histories histories = build_histories(log_of({}, 0), 0);
  EXPECT_THAT(histories.offsets, ElementsAre(0));
  EXPECT_THAT(histories.items, IsEmpty());
  EXPECT_EQ(length_statistics(lengths_of(histories)).users, 0);
}

TEST(Histories, SampleIsSeededAndKeepsOrder) {
  std::vector<Event> events;
  for (std::int32_t user = 0; user < 100; ++user) events.push_back({user, user, 0});
  const Histories all = build_histories(log_of(events, 100), 0);
  const Histories some = sample_users(all, 10, 7);
  EXPECT_EQ(some.users(), 10);
  EXPECT_TRUE(std::is_sorted(some.items.begin(), some.items.end()));
  EXPECT_EQ(some.items, sample_users(all, 10, 7).items);
  EXPECT_NE(some.items, sample_users(all, 10, 8).items);
  EXPECT_EQ(sample_users(all, 1000, 7).items, all.items);
}

TEST(LengthStatistics, PercentilesAreNearestRank) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t length = 100; length >= 1; --length) lengths.push_back(length);
  const LengthStatistics statistics = length_statistics(lengths);
  EXPECT_EQ(statistics.users, 100);
  EXPECT_EQ(statistics.events, 5050);
  EXPECT_EQ(statistics.shortest, 1);
  EXPECT_EQ(statistics.longest, 100);
  EXPECT_EQ(statistics.p5, 5);
  EXPECT_EQ(statistics.p50, 50);
  EXPECT_EQ(statistics.p99, 99);
  EXPECT_DOUBLE_EQ(statistics.mean, 50.5);
  EXPECT_DOUBLE_EQ(statistics.fill, 0.505);
}

TEST(LengthStatistics, ShareOfUsefulScores) {
  // Lengths 1 and 3: 1 + 9 useful scores of 2 · 9.
  EXPECT_DOUBLE_EQ(length_statistics({1, 3}).score_fill, 10.0 / 18.0);
  EXPECT_DOUBLE_EQ(length_statistics({0, 0}).score_fill, 0.0);
}

}  // namespace
}  // namespace jfa::tool
