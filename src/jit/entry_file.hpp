// One compiled kernel as one file, which tells damage of any kind.
//
//   "jfa-kernel 1\n"                 format
//   16 hex digits "\n"               XXH64 of everything behind this line
//   fields, each  name " " bytes "\n" value "\n"   in a fixed order; the image comes last
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "jfa/jit.hpp"

namespace jfa::jit {

std::string to_entry_file(const CompiledKernel& kernel);

// Nothing when the content is damaged, cut short or of another format.
std::optional<CompiledKernel> from_entry_file(std::string_view content);

}  // namespace jfa::jit
