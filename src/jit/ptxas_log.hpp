// Reads what ptxas says about a kernel (`--ptxas-options=-v`).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jfa/jit.hpp"

namespace jfa::jit {

struct PtxasLog {
  std::optional<KernelResources> resources;  // of the entry `symbol`; absent: not in the log
  std::vector<std::string> remarks;          // every line that is not a statistic
};

PtxasLog parse_ptxas_log(std::string_view log, std::string_view symbol);

}  // namespace jfa::jit
