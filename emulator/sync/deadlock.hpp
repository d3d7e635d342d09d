// The report of a cluster in which nothing can run any more.
#pragma once

#include <string>
#include <vector>

#include "exec/cluster.hpp"

namespace ptxemu::exec {

class DeadlockReport {
 public:
  explicit DeadlockReport(Cluster& cluster) : cluster_(cluster) {}
  /// Reports and throws Fault.
  [[noreturn]] void raise();

 private:
  struct Waiter {
    Cta* cta;
    Warp* warp;
    Split* split;
  };
  void collect();
  [[nodiscard]] std::string describe(const Waiter& waiter) const;
  [[nodiscard]] std::string describe_mbarrier(const Split& split) const;
  /// Warps on which a waiter depends: those that arrived at its barrier before and have not yet
  /// now.
  [[nodiscard]] std::vector<std::size_t> depends_on(const Waiter& waiter) const;
  [[nodiscard]] std::string cycle() const;
  [[nodiscard]] std::string name(const Waiter& waiter) const;

  Cluster& cluster_;
  std::vector<Waiter> waiters_;
};

}  // namespace ptxemu::exec
