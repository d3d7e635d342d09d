#include "check/vector_clock.hpp"

#include <algorithm>

namespace ptxemu::check {

void VectorClock::see(AgentId agent, Time time) {
  if (agent >= all_.size()) all_.resize(agent + 1, 0);
  all_[agent] = std::max(all_[agent], time);
}

void VectorClock::see_lanes(AgentId agent, Time time, LaneMask lanes) {
  see_lanes(agent, Lanes{time, lanes});
}

void VectorClock::see_lanes(AgentId agent, Lanes lanes) {
  const Time everyone = agent < all_.size() ? all_[agent] : 0;
  if (lanes.time <= everyone) return;
  if (agent >= some_.size()) some_.resize(agent + 1);
  Lanes& known = some_[agent];
  if (known.time <= everyone) {
    known = lanes;
  } else {
    known.time = std::max(known.time, lanes.time);
    known.lanes |= lanes.lanes;
  }
}

void VectorClock::join(const VectorClock& other) {
  if (all_.size() < other.all_.size()) all_.resize(other.all_.size(), 0);
  for (std::size_t agent = 0; agent < other.all_.size(); ++agent) {
    all_[agent] = std::max(all_[agent], other.all_[agent]);
  }
  for (std::size_t agent = 0; agent < other.some_.size(); ++agent) {
    if (other.some_[agent].lanes != 0) see_lanes(static_cast<AgentId>(agent), other.some_[agent]);
  }
}

void Knowledge::join_clocks(const Knowledge& other) {
  seen.join(other.seen);
  for (std::size_t space = 0; space < fenced.size(); ++space) {
    fenced[space].join(other.fenced[space]);
  }
}

namespace {

using Foreign = std::map<std::uint64_t, std::shared_ptr<const Knowledge>>;

void join_foreign(Foreign& foreign, std::uint64_t cluster,
                  const std::shared_ptr<const Knowledge>& other) {
  std::shared_ptr<const Knowledge>& known = foreign[cluster];
  if (known == other) return;
  if (known == nullptr) {
    known = other;
    return;
  }
  auto merged = std::make_shared<Knowledge>(*known);
  merged->join(*other);
  known = std::move(merged);
}

}  // namespace

void Knowledge::join(const Knowledge& other) {
  join_clocks(other);
  for (const auto& [cluster, knowledge] : other.foreign) join_foreign(foreign, cluster, knowledge);
}

void Knowledge::join_from(std::uint64_t home, const std::shared_ptr<const Knowledge>& other,
                          std::uint64_t here) {
  if (home == here) {
    join(*other);
    return;
  }
  join_foreign(foreign, home, other);
  for (const auto& [cluster, knowledge] : other->foreign) {
    if (cluster == here) {
      join_clocks(*knowledge);
    } else {
      join_foreign(foreign, cluster, knowledge);
    }
  }
}

}  // namespace ptxemu::check
