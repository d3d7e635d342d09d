// The report of a cluster in which nothing can run any more, or nothing changes any more.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exec/cluster.hpp"

namespace ptxemu::exec {

class DeadlockReport {
 public:
  explicit DeadlockReport(Cluster& cluster) : cluster_(cluster) {}
  /// Reports that the cluster cannot go on, because of `reason`, and throws Fault.
  [[noreturn]] void raise(std::string_view reason);
  /// Where every warp stands and what it waits for, one a line.
  [[nodiscard]] std::string waiters();

 private:
  struct Waiter {
    Cta* cta;
    Warp* warp;
    Split* split;
  };
  void collect();
  [[nodiscard]] std::string describe(const Waiter& waiter) const;
  [[nodiscard]] std::string describe_mbarrier(const Split& split) const;
  /// What a thread that polls looks at: the load where it stands, or the nearest above.
  [[nodiscard]] std::string polled(const Waiter& waiter) const;
  /// Warps on which a waiter depends: those that arrived at its barrier before and have not yet
  /// now.
  [[nodiscard]] std::vector<std::size_t> depends_on(const Waiter& waiter) const;
  [[nodiscard]] std::string cycle() const;
  [[nodiscard]] std::string name(const Waiter& waiter) const;

  Cluster& cluster_;
  std::vector<Waiter> waiters_;
};

}  // namespace ptxemu::exec
