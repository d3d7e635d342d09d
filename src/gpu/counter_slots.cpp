#include <fmt/format.h>

#include "gpu/device_plan.hpp"
#include "jfa/error.hpp"

namespace jfa::gpu {

int CounterSlots::slot_of(const runtime::StreamIdentity& identity) {
  const std::lock_guard lock(mutex_);
  for (int slot = 0; slot < taken_; ++slot) {
    if (users_[static_cast<std::size_t>(slot)] == identity) return slot;
  }
  if (taken_ == kCounterSlots) {
    throw InvalidArgument(
        fmt::format("plan: used on {} streams and captures of CUDA graphs, which is the most; make "
                    "another plan for this one",
                    kCounterSlots));
  }
  users_[static_cast<std::size_t>(taken_)] = identity;
  return taken_++;
}

}  // namespace jfa::gpu
