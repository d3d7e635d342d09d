// Commit groups of asynchronous operations (cp.async, bulk copies, wgmma): per lane, in order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ir/instruction.hpp"

namespace ptxemu::sync {

using ir::LaneMask;

/// The groups of one kind that the lanes of one warp have open or pending.
class GroupTracker {
 public:
  /// `operation` joins the group that each of `lanes` is filling.
  void add(std::uint64_t operation, LaneMask lanes);
  /// Closes the group that `lanes` are filling. Appends its operations.
  void commit(LaneMask lanes, std::vector<std::uint64_t>& operations);
  void reads_done(std::uint64_t operation);
  /// Forgets the operation, or remembers it for `take_waited` when `keep`.
  void done(std::uint64_t operation, bool keep);
  /// Whether all but the `allowed` newest committed groups of every lane are complete.
  [[nodiscard]] bool satisfied(LaneMask lanes, std::uint32_t allowed, bool reads_only) const;
  /// Whether every operation, committed or not, is complete.
  [[nodiscard]] bool idle(LaneMask lanes) const { return idle_before(lanes, ~std::uint64_t{0}); }
  /// The same for operations issued before `operation` (cp.async.mbarrier.arrive).
  [[nodiscard]] bool idle_before(LaneMask lanes, std::uint64_t operation) const;
  /// Operations that a wait covers, each returned by one wait only.
  void take_waited(LaneMask lanes, std::uint32_t allowed, bool reads_only,
                   std::vector<std::uint64_t>& operations);
  [[nodiscard]] bool empty() const { return entries_.empty(); }

 private:
  enum class Stage : std::uint8_t { pending, reads_done, done };
  struct Entry {
    std::uint64_t operation;
    LaneMask lanes;
    Stage stage;
    bool reads_reported;
    std::array<std::uint32_t, ir::kWarpSize> group;  // of each lane
  };
  [[nodiscard]] bool covered(const Entry& entry, LaneMask lanes, std::uint32_t allowed) const;

  std::array<std::uint32_t, ir::kWarpSize> open_{};  // number of the group being filled
  std::vector<Entry> entries_;
};

}  // namespace ptxemu::sync
