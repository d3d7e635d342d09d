// The device code as a set of named texts, and which of them one kernel needs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jfa/jit.hpp"

namespace jfa::jit {

// `source` and all files it includes, directly or not, sorted by path: what the compiler is given
// and what the cache key covers. Includes of files outside the tree are left for the compiler to
// report. Throws InvalidArgument when `source` is not in the tree.
std::vector<std::string> include_closure(const SourceTree& tree, std::string_view source);

}  // namespace jfa::jit
