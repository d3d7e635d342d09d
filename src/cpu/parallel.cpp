#include "cpu/parallel.hpp"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>

namespace jfa::cpu {
namespace {

// One run of tasks, entered by every thread that takes part.
class Run {
 public:
  Run(std::int64_t count, int workers, const std::function<void(std::int64_t, int)>& task)
      : count_(count), workers_(workers), task_(task) {}

  void enter() noexcept {
    const int worker = next_worker_++;
    if (worker >= workers_) return;
    try {
      for (std::int64_t index = next_++; index < count_; index = next_++) task_(index, worker);
    } catch (...) {
      next_ = count_;
      if (!failed_.exchange(true)) failure_ = std::current_exception();
    }
  }

  void throw_failure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  const std::int64_t count_;
  const int workers_;
  const std::function<void(std::int64_t, int)>& task_;
  std::atomic<std::int64_t> next_{0};
  std::atomic<int> next_worker_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
};

void run_on_tbb(Run& run, int workers) {
  // More threads than cores are the caller's wish; oneTBB wants to be told.
  std::optional<oneapi::tbb::global_control> allow;
  if (workers > oneapi::tbb::info::default_concurrency()) {
    allow.emplace(oneapi::tbb::global_control::max_allowed_parallelism,
                  static_cast<std::size_t>(workers));
  }
  oneapi::tbb::task_arena arena(workers);
  arena.execute([&] {
    oneapi::tbb::parallel_for(
        oneapi::tbb::blocked_range<int>(0, workers, 1),
        [&](const oneapi::tbb::blocked_range<int>& range) {
          for (int worker = range.begin(); worker != range.end(); ++worker) run.enter();
        },
        oneapi::tbb::simple_partitioner());
  });
}

}  // namespace

int thread_count(int requested) {
  if (requested > 0) return std::min(requested, kMostThreads);
  return std::max(1, oneapi::tbb::info::default_concurrency());
}

void run_tasks(const Execution& execution, std::int64_t count, int workers,
               const std::function<void(std::int64_t index, int worker)>& task) {
  workers = static_cast<int>(std::min<std::int64_t>(workers, count));
  if (workers <= 1) {
    for (std::int64_t index = 0; index < count; ++index) task(index, 0);
    return;
  }
  Run run(count, workers, task);
  if (execution.run_on_threads != nullptr) {
    // All threads of the call, though some may find nothing to do: pools rebuild their team when
    // its size changes.
    execution.run_on_threads(
        thread_count(execution.threads), [](void* state) { static_cast<Run*>(state)->enter(); },
        &run);
  } else {
    run_on_tbb(run, workers);
  }
  run.throw_failure();
}

}  // namespace jfa::cpu
