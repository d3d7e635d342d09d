// The lines look like this (the order of the numbers varies with the version):
//
//   ptxas info    : 0 bytes gmem
//   ptxas info    : Compiling entry function 'f' for 'sm_90a'
//   ptxas info    : Function properties for f
//   ptxas         .     16 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
//   ptxas info    : Used 22 registers, used 1 barriers, 1024 bytes smem
//   ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are
//   serialized… ptxas info    : Compile time = 67.286 ms
#include "jit/ptxas_log.hpp"

#include <algorithm>
#include <charconv>

namespace jfa::jit {
namespace {

constexpr std::string_view kInfo = "ptxas info";
constexpr std::string_view kContinuation = "ptxas         .";

// The number that ends right before `unit`, e.g. 8 for " bytes spill stores"; 0 when absent.
int number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) {
    return 0;
  }
  std::size_t first = end;
  while (first > 0 && line[first - 1] >= '0' && line[first - 1] <= '9') {
    --first;
  }
  int value = 0;
  std::from_chars(line.data() + first, line.data() + end, value);
  return value;
}

// The name between quotes in "Compiling entry function 'name' for 'sm_90a'"; empty elsewhere.
std::string_view compiled_entry(std::string_view line) {
  constexpr std::string_view kStart = "Compiling entry function '";
  const std::size_t start = line.find(kStart);
  if (start == std::string_view::npos) {
    return {};
  }
  line.remove_prefix(start + kStart.size());
  return line.substr(0, line.find('\''));
}

bool is_statistic(std::string_view line) {
  return line.starts_with(kContinuation) ||
         (line.starts_with(kInfo) && line.find(": (C") == std::string_view::npos);
}

}  // namespace

PtxasLog parse_ptxas_log(std::string_view log, std::string_view symbol) {
  PtxasLog result;
  bool ours = false;  // inside the entry's part of the log
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (!is_statistic(line)) {
      if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
        result.remarks.emplace_back(line);
      }
      continue;
    }
    if (const std::string_view entry = compiled_entry(line); !entry.empty()) {
      ours = entry == symbol;
    }
    if (!ours) {
      continue;
    }
    if (line.find("spill stores") != std::string_view::npos) {
      KernelResources& resources =
          result.resources ? *result.resources : result.resources.emplace();
      // A function that is not inlined has its own line behind "Function properties"; the sum
      // counts its spills against the kernel.
      resources.stack_bytes += number_before(line, " bytes stack frame");
      resources.spill_store_bytes += number_before(line, " bytes spill stores");
      resources.spill_load_bytes += number_before(line, " bytes spill loads");
    } else if (line.find("Used ") != std::string_view::npos) {
      KernelResources& resources =
          result.resources ? *result.resources : result.resources.emplace();
      resources.registers = number_before(line, " registers");
      resources.barriers = number_before(line, " barriers");
      resources.static_shared_bytes = number_before(line, " bytes smem");
    }
  }
  return result;
}

}  // namespace jfa::jit
