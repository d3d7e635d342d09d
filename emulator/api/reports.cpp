// Report texts and their collection.
#include "api/reports.hpp"

namespace ptxemu {

std::string_view to_string(ReportKind kind) {
  switch (kind) {
    case ReportKind::data_race:
      return "data race";
    case ReportKind::missing_fence:
      return "missing fence";
    case ReportKind::uninitialised:
      return "uninitialised data";
    case ReportKind::out_of_bounds:
      return "out of bounds";
    case ReportKind::misaligned:
      return "misaligned";
    case ReportKind::barrier_protocol:
      return "barrier protocol";
    case ReportKind::deadlock:
      return "deadlock";
    case ReportKind::in_flight_reuse:
      return "in-flight reuse";
    case ReportKind::bad_descriptor:
      return "bad descriptor";
    case ReportKind::register_budget:
      return "register budget";
    case ReportKind::left_pending:
      return "left pending";
    case ReportKind::divergence:
      return "divergence";
    case ReportKind::illegal_instruction:
      return "illegal instruction";
    case ReportKind::trap:
      return "trap";
    case ReportKind::assertion:
      return "assertion";
    case ReportKind::budget_exceeded:
      return "budget exceeded";
  }
  return "?";
}

std::string to_string(const Report& report) {
  std::string text(to_string(report.kind));
  text += ": " + report.message;
  if (report.where.ptx_line != 0) text += "\n  at " + to_string(report.where);
  if (report.other) text += "\n  and " + to_string(*report.other);
  if (report.count > 1) text += "\n  (" + std::to_string(report.count) + " times)";
  return text;
}

void Reports::begin(const ir::Kernel& kernel, std::uint32_t limit) {
  const std::lock_guard lock(mutex_);
  kernel_ = &kernel;
  limit_ = limit;
  reports_.clear();
  known_.clear();
}

void Reports::add(ReportKind kind, const exec::Instruction* where, std::string message,
                  const exec::Instruction* other) {
  const std::lock_guard lock(mutex_);
  const auto key = std::tuple(kind, where, other);
  if (const auto found = known_.find(key); found != known_.end()) {
    ++reports_[found->second].count;
    return;
  }
  if (reports_.size() >= limit_ || kernel_ == nullptr) return;
  known_.emplace(key, reports_.size());
  Report report;
  report.kind = kind;
  report.message = std::move(message);
  if (where != nullptr) report.where = ir::position_of(*kernel_, *where);
  if (other != nullptr) report.other = ir::position_of(*kernel_, *other);
  reports_.push_back(std::move(report));
}

std::vector<Report> Reports::take() {
  const std::lock_guard lock(mutex_);
  known_.clear();
  kernel_ = nullptr;
  return std::move(reports_);
}

}  // namespace ptxemu
