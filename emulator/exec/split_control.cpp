// Splitting, waiting and meeting of the lanes of a warp; naming threads in messages.
#include <algorithm>

#include "exec/cluster.hpp"

namespace ptxemu::exec {

void Launch::fault(ReportKind kind, const Instruction* where, std::string message) {
  reports->add(kind, where, std::move(message));
  stop.store(true, std::memory_order_relaxed);
  throw Fault{};
}

std::string Context::who(LaneMask lanes) const {
  const Dim3 block = launch->config.block;
  std::string text = "warp " + std::to_string(warp->index);
  if (std::popcount(lanes) == 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const std::uint32_t thread = warp->index * kWarpSize + lane;
    text += " lane " + std::to_string(lane) + " (thread " + std::to_string(thread % block.x) + "," +
            std::to_string(thread / block.x % block.y) + "," +
            std::to_string(thread / block.x / block.y) + ")";
  } else {
    char mask[16];
    std::snprintf(mask, sizeof mask, "0x%08x", lanes);
    text += " lanes " + std::string(mask);
  }
  return text + " of CTA " + std::to_string(cta->id.x) + "," + std::to_string(cta->id.y) + "," +
         std::to_string(cta->id.z);
}

void Context::fault(ReportKind kind, const Instruction& in, LaneMask lanes,
                    const std::string& message) const {
  launch->fault(kind, &in, message + " [" + who(lanes) + "]");
}

void Context::isolate(LaneMask lanes) {
  const LaneMask others = split->lanes & ~lanes;
  if (others == 0) return;
  auto rest = std::make_unique<Split>(*split);  // continues after this instruction
  rest->lanes = others;
  rest->state = SplitState::ready;
  split->lanes = lanes;
  warp->splits.push_back(std::move(rest));
}

Action Context::wait_and_retry(SplitState state, const Instruction& in, LaneMask lanes) {
  isolate(lanes);
  split->state = state;
  split->waiting_at = &in;
  split->retry = true;
  --split->pc;
  return Action::block;
}

bool Context::converge(const Instruction& in, LaneMask lanes, LaneMask wanted) {
  wanted &= warp->live;
  if ((lanes & wanted) == wanted) return true;
  wait_and_retry(SplitState::converging, in, lanes);
  return false;
}

bool Context::converge_warp(const Instruction& in, LaneMask lanes, bool whole_warp) {
  if (!converge(in, lanes, kFullMask)) return false;
  if (whole_warp && lanes != warp->all)
    fault(ReportKind::divergence, in, lanes,
          "an .aligned instruction needs all threads of the warp, but some have exited");
  if (whole_warp && warp->all != kFullMask)
    fault(ReportKind::divergence, in, lanes,
          "an .aligned instruction needs a warp of 32 threads; the block size is not a multiple of "
          "32");
  return true;
}

}  // namespace ptxemu::exec
