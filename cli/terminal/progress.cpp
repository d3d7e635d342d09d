#include "terminal/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "terminal/style.hpp"

namespace jfa::tool {

Progress::Progress(std::string label, double total)
    : label_(std::move(label)), total_(total), visible_(is_terminal(stderr)) {
  update(0);
}

Progress::~Progress() {
  if (visible_) fmt::print(stderr, "\r\x1b[K");
}

void Progress::update(double done) {
  const Clock::time_point now = Clock::now();
  if (!visible_ || now < next_draw_) return;
  next_draw_ = now + std::chrono::milliseconds(50);
  if (total_ <= 0) {
    fmt::print(stderr, "\r\x1b[K{} …", label_);
    return;
  }
  constexpr std::size_t kWidth = 30;
  const double share = std::clamp(done / total_, 0.0, 1.0);
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  std::string left;
  if (share > 0.02 && elapsed > 1) left = show_seconds(elapsed / share * (1 - share)) + " left";
  fmt::print(stderr, "\r\x1b[K{} {} {:3.0f} % {}", pad_right(label_, 28),
             pad_right(bar(share, kWidth), kWidth), 100 * share, left);
  std::fflush(stderr);
}

}  // namespace jfa::tool
