// Group bookkeeping of asynchronous operations.
#include "sync/groups.hpp"

#include <algorithm>

namespace ptxemu::sync {

void GroupTracker::add(std::uint64_t operation, LaneMask lanes) {
  entries_.push_back({operation, lanes, Stage::pending, false, open_});
}

void GroupTracker::commit(LaneMask lanes, std::vector<std::uint64_t>& operations) {
  for (const Entry& entry : entries_) {
    for (int l = 0; l < ir::kWarpSize; ++l) {
      const auto i = static_cast<std::size_t>(l);
      if ((entry.lanes & lanes) >> l & 1 && entry.group[i] == open_[i]) {
        operations.push_back(entry.operation);
        break;
      }
    }
  }
  for (int l = 0; l < ir::kWarpSize; ++l) open_[static_cast<std::size_t>(l)] += lanes >> l & 1;
}

void GroupTracker::reads_done(std::uint64_t operation) {
  for (Entry& entry : entries_) {
    if (entry.operation == operation) entry.stage = Stage::reads_done;
  }
}

void GroupTracker::done(std::uint64_t operation, bool keep) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& e) { return e.operation == operation; });
  if (found == entries_.end()) return;
  if (keep) {
    found->stage = Stage::done;
  } else {
    entries_.erase(found);
  }
}

bool GroupTracker::covered(const Entry& entry, LaneMask lanes, std::uint32_t allowed) const {
  for (LaneMask rest = entry.lanes & lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<std::size_t>(__builtin_ctz(rest));
    if (entry.group[l] + std::uint64_t{allowed} < open_[l]) return true;
  }
  return false;
}

bool GroupTracker::satisfied(LaneMask lanes, std::uint32_t allowed, bool reads_only) const {
  return std::none_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    if (entry.stage == Stage::done || (reads_only && entry.stage == Stage::reads_done))
      return false;
    return covered(entry, lanes, allowed);
  });
}

bool GroupTracker::idle_before(LaneMask lanes, std::uint64_t operation) const {
  return std::none_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.stage != Stage::done && (entry.lanes & lanes) != 0 && entry.operation < operation;
  });
}

void GroupTracker::take_waited(LaneMask lanes, std::uint32_t allowed, bool reads_only,
                               std::vector<std::uint64_t>& operations) {
  std::erase_if(entries_, [&](Entry& entry) {
    if (!covered(entry, lanes, allowed)) return false;
    if (!reads_only || !entry.reads_reported) operations.push_back(entry.operation);
    entry.reads_reported = true;
    return entry.stage == Stage::done && !reads_only;
  });
}

}  // namespace ptxemu::sync
