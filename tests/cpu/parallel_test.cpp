// Tasks on the library's threads and on threads that the caller lends.
#include "cpu/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

#include "jfa/check.hpp"

namespace jfa::cpu {
namespace {

std::atomic<int> lent{0};

// Every call on threads of its own.
void run_on_new_threads(int threads, void (*body)(void* state), void* state) {
  std::vector<std::thread> running;
  for (int t = 1; t < threads; ++t) running.emplace_back(body, state);
  body(state);
  for (std::thread& thread : running) thread.join();
  lent += threads;
}

// A pool that is busy: the caller's thread alone.
void run_on_one_thread(int /*threads*/, void (*body)(void* state), void* state) {
  body(state);
}

std::vector<Execution> executions() {
  std::vector<Execution> all(3);
  for (Execution& execution : all) execution.threads = 4;
  all[1].run_on_threads = run_on_new_threads;
  all[2].run_on_threads = run_on_one_thread;
  return all;
}

TEST(Parallel, EveryTaskRunsOnceAndWorkersAreNeverShared) {
  for (const Execution& execution : executions()) {
    for (const std::int64_t count : {0, 1, 2, 3, 1000}) {
      for (const int workers : {1, 2, 4}) {
        std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
        std::vector<std::atomic<int>> inside(4);
        run_tasks(execution, count, workers, [&](std::int64_t index, int worker) {
          ASSERT_LT(worker, workers);
          EXPECT_EQ(++inside[static_cast<std::size_t>(worker)], 1);
          ++runs[static_cast<std::size_t>(index)];
          --inside[static_cast<std::size_t>(worker)];
        });
        for (const std::atomic<int>& run : runs) EXPECT_EQ(run, 1);
      }
    }
  }
}

// Lent pools rebuild their team when its size changes, so they are always asked for all threads.
TEST(Parallel, LentThreadsAreAskedForAllAtOnce) {
  Execution execution;
  execution.threads = 4;
  execution.run_on_threads = run_on_new_threads;
  lent = 0;
  run_tasks(execution, 2, 4, [](std::int64_t, int) {});
  EXPECT_EQ(lent, 4);
}

TEST(Parallel, AWishForManyThreadsCostsNothing) {
  Execution execution;
  execution.threads = std::numeric_limits<int>::max();
  const CheckReport report = check(parse_problem("bwd fp32 d=16 h=2 q=65,3"), execution);
  EXPECT_TRUE(report.passed()) << to_string(report);
}

TEST(Parallel, AnExceptionOfATaskReachesTheCaller) {
  for (const Execution& execution : executions()) {
    for (const int workers : {1, 4}) {
      const auto fail = [](std::int64_t index, int) {
        if (index == 5) throw std::runtime_error("task 5");
      };
      EXPECT_THROW(run_tasks(execution, 100, workers, fail), std::runtime_error);
    }
  }
}

}  // namespace
}  // namespace jfa::cpu
