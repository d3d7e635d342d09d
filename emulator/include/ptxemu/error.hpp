// Error types of the emulator: what went wrong, and where in the PTX text and in the CUDA source.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace ptxemu {

/// A place in a PTX text and, where the text carries `.loc` lines, the CUDA source line behind it.
struct SourcePosition {
  std::string ptx_file;
  std::uint32_t ptx_line = 0;  ///< 1-based; 0 = unknown
  std::string source_file;     ///< empty without `.loc`
  std::uint32_t source_line = 0;
  std::string function;
  std::string instruction;  ///< text of the instruction, e.g. "ld.shared.u32 %r1, [%r2]"
};

/// "kernel.ptx:120 (softmax.cu:88) in kernel_name: ld.shared.u32 %r1, [%r2]"
std::string to_string(const SourcePosition& position);

enum class ErrorKind : std::uint8_t {
  parse,             ///< malformed PTX
  unsupported,       ///< well-formed PTX with an opcode or modifier the emulator does not have
  invalid_argument,  ///< a host-side call with a bad argument
  not_found,         ///< no such kernel or global symbol
  out_of_memory,     ///< the device memory limit is reached
};

/// Thrown by host-side calls (load, allocate, copy, launch set-up). Faults *inside* a kernel are
/// not thrown; they are `Report`s of the launch.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, SourcePosition position = {})
      : std::runtime_error(message), kind_(kind), position_(std::move(position)) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }
  [[nodiscard]] const SourcePosition& position() const noexcept { return position_; }

 private:
  ErrorKind kind_;
  SourcePosition position_;
};

}  // namespace ptxemu
