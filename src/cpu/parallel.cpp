#include "cpu/parallel.hpp"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <optional>

namespace jfa::cpu {

int thread_count(int requested) {
  return std::max(1, requested > 0 ? requested : oneapi::tbb::info::default_concurrency());
}

void run_tasks(std::int64_t count, int workers,
               const std::function<void(std::int64_t index, int worker)>& task) {
  workers = static_cast<int>(std::min<std::int64_t>(workers, count));
  if (workers <= 1) {
    for (std::int64_t index = 0; index < count; ++index) task(index, 0);
    return;
  }
  // More threads than cores are the caller's wish; oneTBB wants to be told.
  std::optional<oneapi::tbb::global_control> allow;
  if (workers > oneapi::tbb::info::default_concurrency()) {
    allow.emplace(oneapi::tbb::global_control::max_allowed_parallelism,
                  static_cast<std::size_t>(workers));
  }
  std::atomic<std::int64_t> next{0};
  oneapi::tbb::task_arena arena(workers);
  arena.execute([&] {
    oneapi::tbb::parallel_for(
        oneapi::tbb::blocked_range<int>(0, workers, 1),
        [&](const oneapi::tbb::blocked_range<int>& range) {
          for (int worker = range.begin(); worker != range.end(); ++worker) {
            for (std::int64_t index = next++; index < count; index = next++) task(index, worker);
          }
        },
        oneapi::tbb::simple_partitioner());
  });
}

}  // namespace jfa::cpu
