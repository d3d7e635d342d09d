// What a Plan holds for a device.
#pragma once

#include <array>
#include <mutex>
#include <optional>

#include "gpu/plan_launch.hpp"
#include "jfa/runtime.hpp"

namespace jfa::gpu {

// Gives each stream, and each capture of a stream, counters of its own: launches that may run at
// the same time never share them. A launch leaves its counters zero, so that the next one in the
// stream can have them.
class CounterSlots {
 public:
  // Throws InvalidArgument when all are taken.
  int slot_of(const runtime::StreamIdentity& identity);

 private:
  std::mutex mutex_;
  std::array<runtime::StreamIdentity, kCounterSlots> users_{};
  int taken_ = 0;
};

struct DevicePlan {
  Gpu* gpu = nullptr;
  PlanShape shape;
  PlanLayout layout;
  std::optional<runtime::Buffer> own;  // unless the caller gave memory
  PlanParts parts{};
  runtime::StreamHandle stream = nullptr;  // that it was made on
  Mask mask;                               // statistics read its tensors
  mutable CounterSlots slots;
};

}  // namespace jfa::gpu
