// What the checkers know of a warp's registers: which lanes hold undefined values, when a register
// was last written, and which wgmma owns it. Indexed like the register bank.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "check/records.hpp"
#include "ir/instruction.hpp"

namespace ptxemu::check {

class RegisterShadow {
 public:
  explicit RegisterShadow(std::uint32_t register_bytes)
      : undefined_(register_bytes / 4 + 1, ir::kFullMask), written_(register_bytes / 4 + 1, 0) {}

  /// Lanes in which the operand is undefined; constants and special registers are defined.
  [[nodiscard]] LaneMask undefined(const ir::Operand& operand) const {
    return operand.is_register() ? undefined_[operand.offset / 4] : 0;
  }
  /// Lanes in which any of the operands is undefined.
  [[nodiscard]] LaneMask undefined(std::span<const ir::Operand> operands) const {
    LaneMask lanes = 0;
    for (const ir::Operand& operand : operands) lanes |= undefined(operand);
    return lanes;
  }
  /// In `lanes` the operand becomes undefined where `undefined` says so, defined elsewhere.
  void set(const ir::Operand& operand, LaneMask lanes, LaneMask undefined) {
    if (!operand.is_register()) return;
    LaneMask& known = undefined_[operand.offset / 4];
    known = (known & ~lanes) | (undefined & lanes);
  }

  /// Position of the last ordinary write in the warp's instruction count.
  [[nodiscard]] std::uint64_t written(const ir::Operand& operand) const {
    return written_[operand.offset / 4];
  }
  void set_written(const ir::Operand& operand, std::uint64_t position) {
    if (operand.is_register()) written_[operand.offset / 4] = position;
  }

 private:
  std::vector<LaneMask> undefined_;
  std::vector<std::uint64_t> written_;
};

}  // namespace ptxemu::check
