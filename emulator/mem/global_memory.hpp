// Global memory: allocations with red zones between them. A device address is the host address of
// the byte, and every access is checked against the table of allocations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

namespace ptxemu::mem {

struct Allocation {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool read_only = false;
  bool owned = true;
  std::string name;  ///< of a variable; empty for allocations
  [[nodiscard]] bool contains(std::uint64_t address, std::uint64_t bytes) const noexcept {
    return address >= begin && bytes <= end - begin && address - begin <= end - begin - bytes;
  }
};

class GlobalMemory {
 public:
  explicit GlobalMemory(std::uint64_t limit_bytes) : limit_(limit_bytes) {}
  ~GlobalMemory();
  GlobalMemory(const GlobalMemory&) = delete;
  GlobalMemory& operator=(const GlobalMemory&) = delete;

  /// 256-byte aligned, filled with `kPoison`. Throws Error(out_of_memory).
  std::uint64_t allocate(std::uint64_t bytes, std::string name = {}, bool read_only = false);
  /// Throws Error(invalid_argument) for an address that `allocate` did not return.
  void free(std::uint64_t address);
  void add_host_range(const void* host, std::uint64_t bytes, bool read_only);
  void remove_host_range(const void* host);

  /// The allocation that holds all `bytes` at `address`, or null. Stays valid until it is freed.
  [[nodiscard]] const Allocation* find(std::uint64_t address, std::uint64_t bytes) const;
  /// "16 bytes beyond the end of the allocation [0x…, 0x…) of 4096 bytes" for a bad address.
  [[nodiscard]] std::string describe(std::uint64_t address) const;
  void set_limit(std::uint64_t limit_bytes) { limit_ = limit_bytes; }

  /// Every fresh byte; as binary32 and bf16 a NaN.
  static constexpr std::uint8_t kPoison = 0xff;

 private:
  void insert(Allocation allocation);

  std::uint64_t limit_;
  std::uint64_t used_ = 0;
  std::map<std::uint64_t, Allocation> allocations_;  // by begin
  std::deque<Allocation> freed_;                     // the last ones, for messages
};

}  // namespace ptxemu::mem
