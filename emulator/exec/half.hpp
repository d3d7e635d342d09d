// Binders of the f16/bf16 forms (scalar and packed) of opcodes that other types share.
#pragma once

#include "ir/decode.hpp"

namespace ptxemu::exec {

enum class HalfOperation { add, sub, mul, fma };
enum class HalfFunction { ex2, tanh };

void bind_half_arithmetic(ir::Decode& decode, HalfOperation operation);
void bind_half_sign(ir::Decode& decode, bool negate);
void bind_half_min_max(ir::Decode& decode, bool maximum);
void bind_half_function(ir::Decode& decode, HalfFunction function);

}  // namespace ptxemu::exec
