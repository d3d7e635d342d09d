#include "check/global_shadow.hpp"

namespace ptxemu::check {

Shadow* GlobalShadow::find(std::uint64_t address, std::uint64_t& offset) {
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin()) return nullptr;
  --next;
  offset = address - next->first;
  return offset < next->second.size() ? &next->second : nullptr;
}

void GlobalShadow::allocate(std::uint64_t address, std::uint64_t bytes, bool initialised) {
  const std::lock_guard lock(mutex);
  allocations.insert_or_assign(address, Shadow(bytes, initialised));
}

void GlobalShadow::free(std::uint64_t address) {
  const std::lock_guard lock(mutex);
  allocations.erase(address);
}

void GlobalShadow::set_initialised(std::uint64_t address, std::uint64_t bytes) {
  const std::lock_guard lock(mutex);
  std::uint64_t offset = 0;
  if (Shadow* shadow = find(address, offset)) shadow->set_initialised(offset, bytes, true);
}

void GlobalShadow::end_kernel() {
  const std::lock_guard lock(mutex);
  for (auto& [address, shadow] : allocations) shadow.forget_accesses();
  records.clear();
  readers.clear();
}

}  // namespace ptxemu::check
