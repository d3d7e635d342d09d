// Runs independent tasks on the threads of a call: oneTBB's workers, or those that the caller
// lends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "jfa/attention.hpp"

namespace jfa::cpu {

// A larger wish is taken for this one: plans and schedules count threads.
constexpr int kMostThreads = 1024;

// Threads that a call with Execution::threads = `requested` uses (0: all cores), at least 1.
int thread_count(int requested);

// Calls task(index, worker) once for every index in [0, count), lowest indices first, on up to
// `workers` threads; each worker number is used by one thread at a time. A thread takes the next
// task when it is done with one, so a list with the longest tasks first ends evenly. The first
// exception of a task ends the run and is thrown here.
void run_tasks(const Execution& execution, std::int64_t count, int workers,
               const std::function<void(std::int64_t index, int worker)>& task);

}  // namespace jfa::cpu
