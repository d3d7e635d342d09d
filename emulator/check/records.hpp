// What the checkers remember of one access: enough to judge later ones and to describe it in a
// report.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "check/vector_clock.hpp"
#include "exec/observer.hpp"

namespace ptxemu::check {

/// An access as one lane (or one asynchronous operation) made it: record index × 32 + lane. 0 =
/// none.
using RecordId = std::uint32_t;

/// An asynchronous operation from issue to the end of the launch.
struct Operation {
  exec::AsyncIssue issue;
  std::uint64_t sequence = 0;  ///< position of the issue in the cluster's events
  AgentId issuer = 0;
  /// What the issuing warps (wgmma: four) knew and the operation may rely on. Dropped when it is
  /// done.
  std::vector<std::shared_ptr<const Knowledge>> knowledge;
  AgentId read_channel = 0, write_channel = 0;  ///< of its group; unused with mbarrier completion
  Time time = 0;                                ///< in both channels
  /// mbarrier completions: who has seen `time` of `channel` knows that the part in CTA `cta` is
  /// done.
  struct Completion {
    std::uint8_t cta = 0;
    AgentId channel = 0;
    Time time = 0;
  };
  std::vector<Completion> completions;
  mutable std::mutex completions_mutex;  ///< threads of other clusters ask about global memory
  bool reads_done = false, writes_done = false;
  bool reads_awaited = false, writes_awaited = false;  ///< some thread waited for them
  bool tainted = false;  ///< it moved or multiplied data that was never written
};

/// One executed access.
struct Record {
  const exec::Instruction* instruction = nullptr;
  std::uint64_t sequence = 0;
  std::uint64_t cluster = 0;
  std::shared_ptr<const Operation> operation;  ///< null for synchronous accesses
  AgentId agent = 0;                           ///< warp that executed or issued it
  Time time = 0;
  LaneMask lanes = 0;
  Dim3 cta_id;
  std::uint8_t cta = 0;
  std::uint16_t warp = 0;
  exec::Proxy proxy = exec::Proxy::generic;
  exec::AccessKind kind = exec::AccessKind::read;
  bool strong = false;  ///< atomic, relaxed or volatile: does not race with another strong access
};

/// Records of one memory, kept until the kernel ends.
class Records {
 public:
  /// Returns the id of lane 0. A repetition (same instruction, warp, time and kind) reuses its
  /// record.
  RecordId add(Record record);
  [[nodiscard]] const Record& operator[](RecordId id) const { return records_[id / 32]; }
  [[nodiscard]] static unsigned lane(RecordId id) { return id % 32; }
  void clear();

 private:
  static constexpr std::size_t kRecent = 64;
  std::deque<Record> records_{1};  // index 0 is "none"
  RecordId recent_[kRecent] = {};  // last record of each warp, by agent modulo the size
};

}  // namespace ptxemu::check
