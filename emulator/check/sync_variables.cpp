#include "check/sync_variables.hpp"

#include <algorithm>

namespace ptxemu::check {

void SyncVariables::release(const Place& place, std::uint64_t cluster,
                            const std::shared_ptr<const Knowledge>& knowledge) {
  const std::lock_guard lock(mutex_);
  for (auto& [home, known] : places_[place]) {
    if (home != cluster) continue;
    if (known == knowledge) return;
    auto merged = std::make_shared<Knowledge>(*known);
    merged->join(*knowledge);
    known = std::move(merged);
    return;
  }
  places_[place].emplace_back(cluster, knowledge);
}

void SyncVariables::collect(const Place& place, std::vector<Released>& released) const {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(place);
  if (found == places_.end()) return;
  for (const Released& entry : found->second) {
    if (std::find(released.begin(), released.end(), entry) == released.end()) {
      released.push_back(entry);
    }
  }
}

void SyncVariables::clear() {
  const std::lock_guard lock(mutex_);
  places_.clear();
}

}  // namespace ptxemu::check
