// What the library keeps for a device: its context, the kernels in use, scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/choose.hpp"
#include "jfa/attention.hpp"
#include "jfa/runtime.hpp"

namespace jfa::gpu {

// All members may be called by many threads. A kernel that is in use is found without a string or
// an allocation.
class Gpu {
 public:
  explicit Gpu(const Device& device) : context_(runtime::open(device)) {}
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  runtime::Context& context() const { return context_; }

  // Compiled and loaded at the first call.
  const runtime::Kernel& forward_kernel(const ForwardKey& key);
  const runtime::Kernel& plan_kernel(MaskKind mask);
  const runtime::Kernel& copy_kernel();

  // Memory for a call that the caller gave none: one block a stream, which its work uses in order.
  // Other threads that want the block wait until the call has launched everything and drops the
  // lock. Throws InvalidArgument while a CUDA graph captures the stream.
  struct Scratch {
    std::unique_lock<std::mutex> lock;
    void* data = nullptr;
  };
  Scratch scratch(runtime::StreamHandle stream, std::size_t bytes);

 private:
  struct StreamMemory {
    std::mutex mutex;
    std::optional<runtime::Buffer> buffer;
  };

  template <typename Key, typename Load>
  const runtime::Kernel& find(std::vector<std::pair<Key, const runtime::Kernel*>>& kernels,
                              const Key& key, const Load& load);

  runtime::Context& context_;
  std::mutex mutex_;
  std::vector<std::pair<ForwardKey, const runtime::Kernel*>> forward_kernels_;
  std::vector<std::pair<MaskKind, const runtime::Kernel*>> plan_kernels_;
  std::vector<std::pair<int, const runtime::Kernel*>> copy_kernels_;
  std::map<std::uint64_t, StreamMemory> scratch_;  // by the stream's identity
};

// Opened at the first call and for the life of the process. Throws as runtime::open.
Gpu& gpu_of(const Device& device);

}  // namespace jfa::gpu
