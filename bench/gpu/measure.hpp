// Timing of host code: wall and processor time of repeated calls.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>
#include <vector>

namespace jfa::bench {

struct Milliseconds {
  double wall = 0;
  double processor = 0;  // of all threads; what the call costs on a machine that is busy
};

inline double processor_milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

template <typename Body>
Milliseconds time_once(const Body& body) {
  const double processor = processor_milliseconds();
  const auto start = std::chrono::steady_clock::now();
  body();
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - start;
  return {wall.count(), processor_milliseconds() - processor};
}

// Medians of `repeats` calls.
template <typename Body>
Milliseconds time_median(int repeats, const Body& body) {
  std::vector<double> wall;
  std::vector<double> processor;
  for (int i = 0; i < repeats; ++i) {
    const Milliseconds once = time_once(body);
    wall.push_back(once.wall);
    processor.push_back(once.processor);
  }
  const auto median = [](std::vector<double>& values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  };
  return {median(wall), median(processor)};
}

}  // namespace jfa::bench
