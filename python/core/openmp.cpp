// PyTorch's operations run on the threads of the OpenMP runtime that it has loaded. These keep
// spinning for milliseconds after each operation, so the threads of a second pool would wait for a
// core (three times the time of a small call on two cores). The module therefore asks for that very
// runtime: by name, so that it neither links one nor brings a second one along.
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "bindings.hpp"

namespace jfa::python {
namespace {

// The entry of a parallel region in the ABI of GCC's OpenMP, which LLVM's and Intel's offer too.
using ParallelRegion = void (*)(void (*body)(void*), void* state, unsigned threads, unsigned flags);

ParallelRegion parallel_region() {
  static const auto region = reinterpret_cast<ParallelRegion>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  return region;
}

// A team of another size would be built anew, here and again in PyTorch's next operation.
int team_size() {
  static const auto most = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  return most == nullptr ? 1 : most();
}

// The threads of a pool do not live on in a forked process, and OpenMP would wait for them for
// ever.
std::atomic<bool> lost_threads = false;

void run_on_openmp(int threads, void (*body)(void* state), void* state) {
  if (lost_threads) return body(state);  // takes all tasks
  static const int watched = pthread_atfork(nullptr, nullptr, [] { lost_threads = true; });
  static_cast<void>(watched);
  parallel_region()(body, state, static_cast<unsigned>(std::max(threads, team_size())), 0);
}

}  // namespace

RunOnThreads openmp_threads() {
  return parallel_region() == nullptr ? nullptr : &run_on_openmp;
}

}  // namespace jfa::python
