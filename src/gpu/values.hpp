// Values of device tensors on the host: for JFA_CHECK=1 and for statistics of plans.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "gpu/device_plan.hpp"
#include "jfa/attention.hpp"

namespace jfa::gpu {

// Copies small tensors to the host and keeps them.
class HostCopies {
 public:
  HostCopies(Gpu& gpu, runtime::StreamHandle stream) : gpu_(gpu), stream_(stream) {}

  // The same view of a copy; absent stays absent. Waits for the stream.
  Tensor copy(const Tensor& tensor);
  // With every tensor that says which rows see which keys.
  Mask copy(Mask mask);

 private:
  Gpu& gpu_;
  runtime::StreamHandle stream_;
  std::deque<std::vector<std::byte>> blocks_;
};

// With JFA_CHECK=1 in the environment: throws what the CPU would throw for the values of offsets,
// lengths, maps, mask parameters and factors, and InvalidArgument when `plan` (may be null) was
// made for others. Otherwise, and while a CUDA graph captures the stream, nothing.
void check_values(Gpu& gpu, const AttentionArgs& args, const DevicePlan* plan,
                  runtime::StreamHandle stream);

}  // namespace jfa::gpu
