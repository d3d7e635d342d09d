// Functions that the CUDA run-time system provides: vprintf and __assertfail.
#pragma once

#include <string_view>

#include "exec/context.hpp"
#include "ir/decode.hpp"

namespace ptxemu::exec {

ir::Builtin find_builtin(std::string_view name);
/// Fails unless the call's parameters have the built-in's sizes.
void check_builtin(ir::Decode& decode, const ir::CallSite& site);
ir::Action call_builtin(Context& context, const Instruction& in, LaneMask lanes,
                        const ir::CallSite& site);

}  // namespace ptxemu::exec
