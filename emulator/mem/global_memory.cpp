// Allocation table of global memory.
#include "mem/global_memory.hpp"

#include <cstdio>
#include <cstring>
#include <new>

#include "ptxemu/error.hpp"

namespace ptxemu::mem {
namespace {

constexpr std::uint64_t kRedZone = 512;
constexpr std::align_val_t kAlignment{256};
constexpr std::size_t kFreedKept = 64;

std::string range_text(const Allocation& a) {
  char text[96];
  std::snprintf(text, sizeof text, "[0x%llx, 0x%llx) of %llu bytes",
                static_cast<unsigned long long>(a.begin), static_cast<unsigned long long>(a.end),
                static_cast<unsigned long long>(a.end - a.begin));
  return a.name.empty() ? std::string(text) : "'" + a.name + "' " + text;
}

}  // namespace

GlobalMemory::~GlobalMemory() {
  for (const auto& [begin, allocation] : allocations_) {
    if (allocation.owned) ::operator delete(reinterpret_cast<void*>(begin - kRedZone), kAlignment);
  }
}

void GlobalMemory::insert(Allocation allocation) {
  const auto next = allocations_.upper_bound(allocation.begin);
  const bool overlaps_next = next != allocations_.end() && next->second.begin < allocation.end;
  const bool overlaps_previous =
      next != allocations_.begin() && std::prev(next)->second.end > allocation.begin;
  if (overlaps_next || overlaps_previous)
    throw Error(ErrorKind::invalid_argument,
                "host range " + range_text(allocation) + " overlaps registered memory");
  const std::uint64_t begin = allocation.begin;
  allocations_.emplace(begin, std::move(allocation));
}

std::uint64_t GlobalMemory::allocate(std::uint64_t bytes, std::string name, bool read_only) {
  if (bytes > limit_ || used_ > limit_ - bytes)
    throw Error(ErrorKind::out_of_memory, "allocation of " + std::to_string(bytes) +
                                              " bytes exceeds the device memory limit of " +
                                              std::to_string(limit_) + " bytes (" +
                                              std::to_string(used_) + " in use)");
  void* raw = nullptr;
  try {
    raw = ::operator new(bytes + 2 * kRedZone, kAlignment);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::out_of_memory,
                "the host has no " + std::to_string(bytes) + " bytes for device memory");
  }
  std::memset(raw, kPoison, bytes + 2 * kRedZone);
  Allocation allocation;
  allocation.begin = reinterpret_cast<std::uint64_t>(raw) + kRedZone;
  allocation.end = allocation.begin + bytes;
  allocation.name = std::move(name);
  allocation.read_only = read_only;
  const std::uint64_t begin = allocation.begin;
  insert(std::move(allocation));
  used_ += bytes;
  return begin;
}

void GlobalMemory::free(std::uint64_t address) {
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || !found->second.owned)
    throw Error(ErrorKind::invalid_argument,
                "free of an address that allocate did not return: " + describe(address));
  used_ -= found->second.end - found->second.begin;
  freed_.push_back(found->second);
  if (freed_.size() > kFreedKept) freed_.pop_front();
  ::operator delete(reinterpret_cast<void*>(address - kRedZone), kAlignment);
  allocations_.erase(found);
}

void GlobalMemory::add_host_range(const void* host, std::uint64_t bytes, bool read_only) {
  Allocation allocation;
  allocation.begin = reinterpret_cast<std::uint64_t>(host);
  allocation.end = allocation.begin + bytes;
  allocation.read_only = read_only;
  allocation.owned = false;
  insert(std::move(allocation));
}

void GlobalMemory::remove_host_range(const void* host) {
  const auto found = allocations_.find(reinterpret_cast<std::uint64_t>(host));
  if (found == allocations_.end() || found->second.owned)
    throw Error(ErrorKind::invalid_argument, "the host range is not registered");
  allocations_.erase(found);
}

const Allocation* GlobalMemory::find(std::uint64_t address, std::uint64_t bytes) const {
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  const Allocation& candidate = std::prev(next)->second;
  return candidate.contains(address, bytes) ? &candidate : nullptr;
}

std::string GlobalMemory::describe(std::uint64_t address) const {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  std::string result = text;
  for (auto it = freed_.rbegin(); it != freed_.rend(); ++it) {
    if (address >= it->begin && address < it->end)
      return result + " lies in freed memory " + range_text(*it);
  }
  const auto next = allocations_.upper_bound(address);
  if (next != allocations_.begin()) {
    const Allocation& below = std::prev(next)->second;
    if (address < below.end) return result + " lies in " + range_text(below);
    if (address - below.end < 1 << 20)
      return result + " is " + std::to_string(address - below.end) + " bytes beyond the end of " +
             range_text(below);
  }
  if (next != allocations_.end() && next->second.begin - address < 1 << 20)
    return result + " is " + std::to_string(next->second.begin - address) + " bytes before " +
           range_text(next->second);
  return result + " belongs to no allocation";
}

}  // namespace ptxemu::mem
