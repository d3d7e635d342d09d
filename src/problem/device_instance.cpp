// A ProblemInstance in the memory of a device.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "jfa/runtime.hpp"
#include "problem/instance_parts.hpp"

namespace jfa {
namespace {

constexpr std::size_t kAlignment = 64;  // what addresses are misaligned to
constexpr std::size_t kGuard = 256;     // on the device, a multiple of kAlignment

// One buffer on both sides.
struct Block {
  std::byte* host;
  std::size_t bytes;
  bool result;
  runtime::Buffer memory;
  std::byte* device;  // of the same misalignment as `host`
  std::size_t guard_behind;
};

std::vector<Tensor*> tensors_of(ForwardArgs& args) {
  std::vector<Tensor*> tensors = {&args.q,
                                  &args.k,
                                  &args.v,
                                  &args.q_sequences.offsets,
                                  &args.q_sequences.used_lengths,
                                  &args.kv_sequences.offsets,
                                  &args.kv_sequences.used_lengths,
                                  &args.kv_map,
                                  &args.out_scales,
                                  &args.mask.intervals,
                                  &args.bias.dense,
                                  &args.bias.alibi_slopes,
                                  &args.bias.position_table,
                                  &args.bias.time_table,
                                  &args.bias.q_timestamps,
                                  &args.bias.kv_timestamps,
                                  &args.out,
                                  &args.lse};
  Mask& mask = args.mask;
  for (SequenceParameter* parameter :
       {&mask.left, &mask.right, &mask.contextual, &mask.targets, &mask.target_group,
        &mask.max_attention_length, &mask.min_full_attention, &mask.prefix, &mask.local,
        &mask.block}) {
    tensors.push_back(&parameter->per_sequence);
  }
  return tensors;
}

}  // namespace

struct DeviceInstance::Blocks {
  Blocks(ProblemInstance::Parts& parts, const Device& device) : context(runtime::open(device)) {
    // A PTX machine reports what leaves an allocation; a GPU needs a guard there.
    const std::size_t guard_behind = device.kind == DeviceKind::emulated ? 0 : kGuard;
    for (auto* buffers : {&parts.inputs, &parts.results}) {
      for (detail::Buffer& buffer : *buffers) add(buffer, buffers == &parts.results, guard_behind);
    }
    args = parts.forward;
    for (Tensor* tensor : tensors_of(args)) move(*tensor);
    context.synchronize();
  }

  void add(detail::Buffer& buffer, bool result, std::size_t guard_behind) {
    const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(buffer.data()) % kAlignment;
    const std::size_t bytes = kGuard + misaligned + buffer.size() + guard_behind;
    runtime::Buffer memory(context, bytes);
    context.fill(memory.data(), 0xff, bytes);
    std::byte* device = static_cast<std::byte*>(memory.data()) + kGuard + misaligned;
    context.copy(device, buffer.data(), buffer.size());
    blocks.push_back(
        {buffer.data(), buffer.size(), result, std::move(memory), device, guard_behind});
  }

  void move(Tensor& tensor) const {
    auto* const host = static_cast<std::byte*>(tensor.data);
    for (const Block& block : blocks) {
      if (tensor.data == nullptr || host < block.host || host > block.host + block.bytes) continue;
      tensor.data = block.device + (host - block.host);
      return;
    }
  }

  runtime::Context& context;
  std::vector<Block> blocks;
  ForwardArgs args;
};

DeviceInstance::DeviceInstance(ProblemInstance& instance, const Device& device)
    : blocks_(std::make_unique<Blocks>(*instance.parts_, device)) {}

DeviceInstance::~DeviceInstance() = default;

const ForwardArgs& DeviceInstance::forward() const {
  return blocks_->args;
}

void DeviceInstance::poison() {
  for (const Block& block : blocks_->blocks) {
    if (block.result) blocks_->context.fill(block.device, 0xff, block.bytes);
  }
}

void DeviceInstance::copy_back() {
  const std::size_t guard = std::min(detail::Buffer::guard(), kGuard);
  for (const Block& block : blocks_->blocks) {
    blocks_->context.copy(block.host - guard, block.device - guard,
                          block.bytes + guard + std::min(guard, block.guard_behind));
  }
  blocks_->context.synchronize();
}

}  // namespace jfa
