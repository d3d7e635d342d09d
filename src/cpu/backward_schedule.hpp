// The tasks of one backward call, and the memory they need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/tasks.hpp"

namespace jfa::cpu {

// Tasks that one thread runs in order; with a slot they add to the sums of that slot.
struct BackwardItem {
  std::int64_t first_task = 0;
  std::int64_t tasks = 0;
  std::int64_t slot = -1;
  std::int64_t work = 0;
};

// Sizes of SharedSums, in elements; 0 where a gradient is not shared.
struct SharedSizes {
  std::int64_t d_q = 0;
  std::int64_t d_k = 0;
  std::int64_t d_v = 0;
  std::int64_t slopes = 0;
  std::int64_t position_table = 0;
  std::int64_t time_table = 0;

  bool any() const { return d_q + d_k + d_v + slopes + position_table + time_table > 0; }
  SharedSums carve(void* block, std::size_t* bytes) const;
};

struct BackwardSchedule {
  std::vector<BackwardTask> tasks;
  std::vector<BackwardItem> items;  // longest first
  Blocking blocking;
  SharedSizes shared;
  std::int64_t slots = 0;        // all key heads together; slot s serves key head s / (slots / Hkv)
  std::size_t shared_bytes = 0;  // of one slot
  std::int64_t dq_rows = 0;      // see BackwardScratch
  std::size_t scratch_bytes = 0;  // of one worker
  int workers = 1;
  bool direct_d_q = false;
  bool dense_in_keys = false;

  std::size_t bytes() const {
    return shared_bytes * static_cast<std::size_t>(slots) +
           scratch_bytes * static_cast<std::size_t>(workers) + 64;
  }
};

BackwardSchedule schedule_backward(const BackwardArgs& args, const detail::Call& call,
                                   const detail::PlanData& plan, const Execution& execution);

}  // namespace jfa::cpu
