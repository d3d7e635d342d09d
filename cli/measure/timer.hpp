// Times of repeated runs.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace jfa::tool {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Seconds that one call of `run` takes.
template <typename Run>
double seconds_of(const Run& run) {
  const Stopwatch watch;
  run();
  return watch.seconds();
}

inline double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace jfa::tool
