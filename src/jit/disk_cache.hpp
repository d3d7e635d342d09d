// A directory of compiled kernels that many processes share. Bundles are such directories too.
//
// A file is named <key>-<compiler>.kernel, where the key covers sources, options and architecture.
// Files appear complete or not at all (written aside, flushed, renamed); a damaged one is removed
// when it is read. Locks only keep processes from doing the same work twice; nothing is wrong
// without them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jfa/jit.hpp"

namespace jfa::jit {

// An exclusive lock on a key, between threads and between processes; the kernel releases it when
// its holder dies.
class KeyLock {
 public:
  // Waits until `timeout_seconds` have passed, and then goes on without the lock.
  KeyLock(const std::filesystem::path& directory, std::string_view key, double timeout_seconds);
  ~KeyLock();
  KeyLock(const KeyLock&) = delete;
  KeyLock& operator=(const KeyLock&) = delete;

 private:
  int file_ = -1;
};

class DiskCache {
 public:
  explicit DiskCache(std::filesystem::path directory) : directory_(std::move(directory)) {}

  const std::filesystem::path& directory() const { return directory_; }

  // The kernel, if it is there and whole; `compiler` empty: made by any compiler. Counts as a use.
  std::optional<CompiledKernel> load(std::string_view key, std::string_view compiler) const;

  // Creates the directory when needed. Throws DeviceError (naming JFA_CACHE_DIR) when it cannot be
  // written.
  std::filesystem::path store(std::string_view key, std::string_view compiler,
                              const CompiledKernel& kernel) const;

  // Removes the least recently used files until at most `limit_bytes` are left, never `keep`, and
  // what writers that died left behind.
  void evict(std::uint64_t limit_bytes, const std::filesystem::path& keep) const;

  std::vector<CacheEntry> list() const;
  std::uint64_t clear() const;

 private:
  std::filesystem::path file_of(std::string_view key, std::string_view compiler) const;

  std::filesystem::path directory_;
};

}  // namespace jfa::jit
