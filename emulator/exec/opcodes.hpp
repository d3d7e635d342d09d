// The families of the decode table; each is defined next to its handlers.
#pragma once

#include <span>

#include "ir/decode.hpp"

namespace ptxemu::exec {

std::span<const ir::OpcodeRow> integer_opcodes();
std::span<const ir::OpcodeRow> extended_integer_opcodes();
std::span<const ir::OpcodeRow> logic_opcodes();
std::span<const ir::OpcodeRow> float_opcodes();
std::span<const ir::OpcodeRow> compare_opcodes();
std::span<const ir::OpcodeRow> move_opcodes();
std::span<const ir::OpcodeRow> convert_opcodes();
std::span<const ir::OpcodeRow> memory_opcodes();
std::span<const ir::OpcodeRow> atomic_opcodes();
std::span<const ir::OpcodeRow> control_opcodes();
std::span<const ir::OpcodeRow> warp_opcodes();
std::span<const ir::OpcodeRow> barrier_opcodes();
std::span<const ir::OpcodeRow> mbarrier_opcodes();
std::span<const ir::OpcodeRow> async_opcodes();
std::span<const ir::OpcodeRow> bulk_opcodes();
std::span<const ir::OpcodeRow> matrix_opcodes();
std::span<const ir::OpcodeRow> misc_opcodes();

}  // namespace ptxemu::exec
