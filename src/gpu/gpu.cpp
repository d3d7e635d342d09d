#include "gpu/gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>

#include "gpu/plan_launch.hpp"
#include "jfa/error.hpp"

namespace jfa::gpu {

template <typename Key, typename Load>
const runtime::Kernel& Gpu::find(std::vector<std::pair<Key, const runtime::Kernel*>>& kernels,
                                 const Key& key, const Load& load) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [known, kernel] : kernels) {
      if (known == key) return *kernel;
    }
  }
  const runtime::Kernel& kernel = load();  // seconds, when it is compiled: others go on meanwhile
  const std::lock_guard lock(mutex_);
  kernels.emplace_back(key, &kernel);
  return kernel;
}

const runtime::Kernel& Gpu::forward_kernel(const ForwardKey& key) {
  return find(forward_kernels_, key, [&]() -> const runtime::Kernel& {
    return context_.kernel(std::string(kForwardSource), entry_of(key));
  });
}

const runtime::Kernel& Gpu::plan_kernel(MaskKind mask) {
  return find(plan_kernels_, mask, [&]() -> const runtime::Kernel& {
    return context_.kernel(std::string(kPlanSource), plan_entry(mask));
  });
}

const runtime::Kernel& Gpu::copy_kernel() {
  return find(copy_kernels_, 0, [&]() -> const runtime::Kernel& {
    return context_.kernel(std::string(kCopySource), std::string(kCopyEntry));
  });
}

Gpu::Scratch Gpu::scratch(runtime::StreamHandle stream, std::size_t bytes) {
  const runtime::StreamIdentity identity = context_.identity(stream);
  if (identity.capture != 0) {
    throw InvalidArgument(
        fmt::format("workspace: missing, and a CUDA graph captures the stream; pass {} bytes of "
                    "device memory that live as long as the graph (forward_workspace_bytes)",
                    bytes));
  }
  const auto memory_of = [&]() -> StreamMemory& {
    const std::lock_guard lock(mutex_);
    return scratch_[identity.id];
  };
  StreamMemory& memory = memory_of();
  Scratch scratch{std::unique_lock(memory.mutex), nullptr};
  if (!memory.buffer || memory.buffer->bytes() < bytes) {
    memory.buffer.reset();  // waits for the work that uses the smaller block
    memory.buffer.emplace(context_, bytes);
  }
  scratch.data = memory.buffer->data();
  return scratch;
}

Gpu& gpu_of(const Device& device) {
  constexpr std::size_t kRemembered = 16;
  static std::array<std::atomic<Gpu*>, kRemembered> gpus{};  // cuda:0 …, found without a lock
  static std::mutex mutex;
  static auto& all = *new std::map<std::string, std::unique_ptr<Gpu>>;  // never destroyed
  const auto index = static_cast<std::size_t>(std::max(device.index, 0));
  const bool remembered = device.kind == DeviceKind::cuda && index < kRemembered;
  if (remembered) {
    if (Gpu* gpu = gpus[index].load(std::memory_order_acquire)) return *gpu;
  }
  const std::lock_guard lock(mutex);
  std::unique_ptr<Gpu>& gpu = all[to_string(device)];
  if (!gpu) gpu = std::make_unique<Gpu>(device);
  if (remembered) gpus[index].store(gpu.get(), std::memory_order_release);
  return *gpu;
}

}  // namespace jfa::gpu
