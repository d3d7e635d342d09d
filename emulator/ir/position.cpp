// Source positions of instructions and their text.
#include <algorithm>

#include "ir/program.hpp"

namespace ptxemu {

std::string to_string(const SourcePosition& position) {
  std::string text = position.ptx_file + ":" + std::to_string(position.ptx_line);
  if (!position.source_file.empty())
    text += " (" + position.source_file + ":" + std::to_string(position.source_line) + ")";
  if (!position.function.empty()) text += " in " + position.function;
  if (!position.instruction.empty()) text += ": " + position.instruction;
  return text;
}

}  // namespace ptxemu

namespace ptxemu::ir {

SourcePosition position_of(const ptx::Module& module, std::uint32_t line, std::uint32_t location) {
  SourcePosition position;
  position.ptx_file = module.name;
  position.ptx_line = line;
  if (location != 0 && location < module.locations.size()) {
    const ptx::Location& place = module.locations[location];
    position.source_line = place.line;
    for (const auto& [index, name] : module.files) {
      if (index == place.file) position.source_file = name;
    }
    if (position.source_file.empty()) position.source_file = "file " + std::to_string(place.file);
  }
  return position;
}

SourcePosition position_of(const Kernel& kernel, const Instruction& instruction) {
  SourcePosition position = position_of(*kernel.module, instruction.line, instruction.location);
  const auto index = static_cast<std::uint32_t>(&instruction - kernel.code.data());
  for (const FunctionLayout& function : kernel.functions) {
    if (function.entry <= index) position.function = function.name;
  }
  position.instruction = instruction.text;
  // Multi-line assembly reads better on one line.
  std::replace(position.instruction.begin(), position.instruction.end(), '\n', ' ');
  std::replace(position.instruction.begin(), position.instruction.end(), '\t', ' ');
  return position;
}

}  // namespace ptxemu::ir
