#include "events/histories.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace jfa::tool {
namespace {

// Indices of the events, grouped by user, in file order within a user (a counting sort).
std::vector<std::int32_t> group_by_user(const EventLog& log, std::vector<std::int64_t>& offsets) {
  offsets.assign(static_cast<std::size_t>(log.users) + 1, 0);
  for (const Event& event : log.events) ++offsets[static_cast<std::size_t>(event.user) + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
  std::vector<std::int32_t> order(log.events.size());
  for (std::size_t i = 0; i < log.events.size(); ++i) {
    const auto user = static_cast<std::size_t>(log.events[i].user);
    order[static_cast<std::size_t>(next[user]++)] = static_cast<std::int32_t>(i);
  }
  return order;
}

}  // namespace

Histories build_histories(const EventLog& log, std::int64_t longest) {
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> order = group_by_user(log, offsets);
  const auto event_of = [&](std::int32_t index) -> const Event& {
    return log.events[static_cast<std::size_t>(index)];
  };

  Histories histories;
  histories.offsets.reserve(offsets.size());
  histories.items.reserve(order.size());
  for (std::size_t user = 0; user + 1 < offsets.size(); ++user) {
    const auto begin = order.begin() + offsets[user];
    const auto end = order.begin() + offsets[user + 1];
    std::stable_sort(begin, end, [&](std::int32_t a, std::int32_t b) {
      return event_of(a).time < event_of(b).time;
    });
    const auto kept = longest > 0 ? std::min<std::ptrdiff_t>(longest, end - begin) : end - begin;
    std::transform(end - kept, end, std::back_inserter(histories.items),
                   [&](std::int32_t index) { return event_of(index).item; });
    histories.offsets.push_back(static_cast<std::int64_t>(histories.items.size()));
  }
  return histories;
}

Histories select_users(const Histories& histories, const std::vector<std::int64_t>& users) {
  Histories result;
  result.offsets.reserve(users.size() + 1);
  for (const std::int64_t user : users) {
    const auto begin = histories.items.begin() + histories.offsets[static_cast<std::size_t>(user)];
    result.items.insert(result.items.end(), begin, begin + histories.length(user));
    result.offsets.push_back(static_cast<std::int64_t>(result.items.size()));
  }
  return result;
}

Histories sample_users(const Histories& histories, std::int64_t count, std::uint64_t seed) {
  if (count >= histories.users()) return histories;
  std::vector<std::int64_t> users(static_cast<std::size_t>(histories.users()));
  std::iota(users.begin(), users.end(), 0);
  std::vector<std::int64_t> chosen;
  std::sample(users.begin(), users.end(), std::back_inserter(chosen), count, std::mt19937_64(seed));
  return select_users(histories, chosen);
}

std::vector<std::int64_t> lengths_of(const Histories& histories) {
  std::vector<std::int64_t> lengths;
  lengths.reserve(static_cast<std::size_t>(histories.users()));
  for (std::int64_t user = 0; user < histories.users(); ++user) {
    lengths.push_back(histories.length(user));
  }
  return lengths;
}

LengthStatistics length_statistics(const std::vector<std::int64_t>& lengths) {
  LengthStatistics statistics;
  if (lengths.empty()) return statistics;
  std::vector<std::int64_t> sorted = lengths;
  std::sort(sorted.begin(), sorted.end());
  // Nearest rank: the smallest length that at least this share of the users does not exceed.
  const auto percentile = [&](double share) {
    const double rank = std::ceil(share * static_cast<double>(sorted.size()));
    return sorted[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  const auto users = static_cast<double>(sorted.size());
  double squares = 0;
  for (const std::int64_t length : sorted) {
    statistics.events += length;
    squares += static_cast<double>(length) * static_cast<double>(length);
  }
  statistics.users = static_cast<std::int64_t>(sorted.size());
  statistics.shortest = sorted.front();
  statistics.longest = sorted.back();
  statistics.mean = static_cast<double>(statistics.events) / users;
  statistics.p5 = percentile(0.05);
  statistics.p25 = percentile(0.25);
  statistics.p50 = percentile(0.50);
  statistics.p75 = percentile(0.75);
  statistics.p90 = percentile(0.90);
  statistics.p95 = percentile(0.95);
  statistics.p99 = percentile(0.99);
  if (const auto longest = static_cast<double>(statistics.longest); longest > 0) {
    statistics.fill = static_cast<double>(statistics.events) / (users * longest);
    statistics.score_fill = squares / (users * longest * longest);
  }
  return statistics;
}

}  // namespace jfa::tool
