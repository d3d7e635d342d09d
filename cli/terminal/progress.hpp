// A progress bar on standard error, drawn only when that is a terminal.
#pragma once

#include <chrono>
#include <string>

namespace jfa::tool {

class Progress {
 public:
  // `total` in any unit; 0: unknown, then only the label is shown.
  Progress(std::string label, double total);
  ~Progress();  // wipes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(double done);  // redraws at most every 50 ms

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  double total_;
  bool visible_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_draw_ = start_;
};

}  // namespace jfa::tool
