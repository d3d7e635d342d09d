#include "cpu/scratch.hpp"

#include <algorithm>
#include <cstdint>

namespace jfa::cpu {

Workspace::Workspace(const Execution& execution, std::size_t bytes) {
  void* given = execution.workspace;
  std::size_t space = execution.workspace_bytes;
  if (given != nullptr && std::align(64, bytes, given, space) != nullptr) {
    begin_ = static_cast<std::byte*>(given);
    return;
  }
  own_.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64})));
  begin_ = own_.get();
}

int affordable_workers(int wanted, std::size_t bytes_each, std::size_t common) {
  const std::size_t left = kMostScratch > common ? kMostScratch - common : 0;
  const auto most = static_cast<int>(std::min<std::size_t>(left / bytes_each, 1 << 20));
  return std::max(1, std::min(wanted, most));
}

}  // namespace jfa::cpu
