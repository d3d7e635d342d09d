// Recursive-descent parser of PTX text.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ptx/ast.hpp"

namespace ptxemu::ptx {

/// Throws Error(parse) with file and line. The result keeps a copy of the text.
std::shared_ptr<Module> parse(std::string_view text, std::string_view name);

}  // namespace ptxemu::ptx
