// Scratch of the workers of one call: the caller's workspace, or memory of our own.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "jfa/attention.hpp"

namespace jfa::cpu {

// All scratch of a call stays within this; calls with large tiles run on fewer threads then.
constexpr std::size_t kMostScratch = std::size_t{64} << 20;

class Workspace {
 public:
  // `bytes` aligned to cache lines, from the workspace of `execution` when that is large enough.
  Workspace(const Execution& execution, std::size_t bytes);
  std::byte* at(std::size_t offset) const { return begin_ + offset; }

 private:
  struct Free {
    void operator()(std::byte* block) const { ::operator delete[](block, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte[], Free> own_;
  std::byte* begin_ = nullptr;
};

// Workers that fit: `wanted`, or fewer when each needs much scratch on top of `common` bytes.
int affordable_workers(int wanted, std::size_t bytes_each, std::size_t common);

}  // namespace jfa::cpu
