// How far long work is: a bar on standard error when that is a terminal, else a line now and then.
#pragma once

#include <chrono>
#include <string>

namespace jfa::tool {

class Progress {
 public:
  // `total` in any unit; 0: unknown, then only the label and the time are shown.
  Progress(std::string label, double total);
  ~Progress();  // wipes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(double done);  // a bar is drawn again at most every 50 ms, a line every 20 s

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  double total_;
  bool terminal_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_draw_ = start_;
};

}  // namespace jfa::tool
