// User histories: the items of each user in the order of time, as a jagged array.
#pragma once

#include <cstdint>
#include <vector>

#include "events/event_log.hpp"

namespace jfa::tool {

struct Histories {
  std::vector<std::int64_t> offsets{0};  // [users + 1]
  std::vector<std::int32_t> items;       // [offsets.back()], oldest first

  std::int64_t users() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t length(std::int64_t user) const {
    const auto u = static_cast<std::size_t>(user);
    return offsets[u + 1] - offsets[u];
  }
};

// Sorts by user, then time; events of equal time keep their order in the log. Only the newest
// `longest` events of a user are kept; 0 keeps all.
Histories build_histories(const EventLog& log, std::int64_t longest);

// The histories of `users`, in this order.
Histories select_users(const Histories& histories, const std::vector<std::int64_t>& users);

// A seeded choice of `count` users, in their old order; all of them when there are no more.
Histories sample_users(const Histories& histories, std::int64_t count, std::uint64_t seed);

// What the lengths look like.
struct LengthStatistics {
  std::int64_t users = 0;
  std::int64_t events = 0;
  std::int64_t shortest = 0;
  std::int64_t longest = 0;
  double mean = 0;
  std::int64_t p5 = 0, p25 = 0, p50 = 0, p75 = 0, p90 = 0, p95 = 0, p99 = 0;
  double fill = 0;        // events / (users · longest): useful share of a padded batch's rows
  double score_fill = 0;  // Σ length² / (users · longest²): useful share of its scores
};

LengthStatistics length_statistics(const std::vector<std::int64_t>& lengths);
std::vector<std::int64_t> lengths_of(const Histories& histories);

}  // namespace jfa::tool
