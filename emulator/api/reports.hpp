// Collects the findings of a launch: thread-safe, repeats are counted.
#pragma once

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "exec/observer.hpp"
#include "ir/program.hpp"

namespace ptxemu {

class Reports final : public exec::ReportSink {
 public:
  /// Forgets everything; positions from now on belong to `kernel`.
  void begin(const ir::Kernel& kernel, std::uint32_t limit);
  void add(ReportKind kind, const exec::Instruction* where, std::string message,
           const exec::Instruction* other) override;
  std::vector<Report> take();

 private:
  std::mutex mutex_;
  const ir::Kernel* kernel_ = nullptr;
  std::uint32_t limit_ = 0;
  std::vector<Report> reports_;
  std::map<std::tuple<ReportKind, const exec::Instruction*, const exec::Instruction*>, std::size_t>
      known_;
};

}  // namespace ptxemu
