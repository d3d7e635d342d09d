// The work list of one batch of offsets: which tiles there are, in which order they run, which
// sequences share one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace jfa {

struct AttentionArgs;
struct Execution;

struct PlanStatistics {
  std::int64_t batch = 0;
  std::int64_t empty_sequences = 0;  // no query rows, or no key rows
  std::int64_t query_rows = 0;       // valid rows over all sequences
  std::int64_t key_rows = 0;
  std::int64_t tiles = 0;         // per head group
  std::int64_t packed_tiles = 0;  // tiles that hold more than one sequence
  std::int64_t tile_rows = 0;     // rows of a full tile
  double row_fill = 0;            // valid rows / (tiles · tile_rows)
  double visible_pairs = 0;       // (row, key) pairs that the mask lets through, one head
  double computed_pairs = 0;      // pairs in key blocks that are not skipped, one head
  double padded_pairs = 0;  // batch · longest q · longest kv: what a padded dense kernel computes
  double largest_tile_share = 0;  // work of the largest tile / all work
};

namespace detail {
struct PlanData;
}

// Immutable and cheap to copy; safe to share between threads and streams. On the CPU it holds a
// copy of the offsets it was made from, and a call with other offsets is refused. On other devices
// it lies in device memory; a call with other shapes, layouts or mask is refused, other offsets are
// found with JFA_CHECK=1 only.
class Plan {
 public:
  Plan() = default;
  explicit Plan(std::shared_ptr<const detail::PlanData> data) : data_(std::move(data)) {}

  bool valid() const { return data_ != nullptr; }
  // On devices: waits for the plan, copies it back, and reads the tensors of the mask.
  PlanStatistics statistics() const;
  const detail::PlanData& data() const { return *data_; }

 private:
  std::shared_ptr<const detail::PlanData> data_;
};

// Makes the plan for these arguments (shapes, offsets, mask; the values of q, k and v are not
// read). Throws InvalidArgument.
Plan make_plan(const AttentionArgs& args, const Execution& execution);
Plan make_plan(const AttentionArgs& args);

// Bytes of device memory that the plan for these arguments takes (Execution::plan_memory); shapes
// alone decide. 0 on the CPU.
std::size_t plan_bytes(const AttentionArgs& args, const Execution& execution);

// Several lines for a person: tiles, packing, fill, skipped work.
std::string to_string(const PlanStatistics& statistics);

}  // namespace jfa
