// Binders of the integer forms of opcodes that floating point shares.
#pragma once

#include "ir/decode.hpp"

namespace ptxemu::exec {

void bind_integer_add(ir::Decode& decode);
void bind_integer_sub(ir::Decode& decode);
void bind_integer_mul(ir::Decode& decode);
void bind_integer_mad(ir::Decode& decode);
void bind_integer_div(ir::Decode& decode);
void bind_integer_abs(ir::Decode& decode);
void bind_integer_neg(ir::Decode& decode);
void bind_integer_min_max(ir::Decode& decode, bool maximum);

}  // namespace ptxemu::exec
