#include "terminal/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "terminal/interrupt.hpp"
#include "terminal/style.hpp"

namespace jfa::tool {
namespace {

constexpr std::chrono::milliseconds kBarEvery{50};
constexpr std::chrono::seconds kLineEvery{20};

}  // namespace

Progress::Progress(std::string label, double total)
    : label_(std::move(label)), total_(total), terminal_(is_terminal(stderr)) {
  bar_on_terminal(terminal_);
  if (terminal_) {
    update(0);
  } else {
    next_draw_ += kLineEvery;  // short work says nothing
  }
}

Progress::~Progress() {
  if (terminal_) fmt::print(stderr, "\r\x1b[K");
  bar_on_terminal(false);
}

void Progress::update(double done) {
  const Clock::time_point now = Clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + (terminal_ ? Clock::duration(kBarEvery) : Clock::duration(kLineEvery));
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double share = total_ > 0 ? std::clamp(done / total_, 0.0, 1.0) : 0;
  std::string times = total_ > 0 ? "" : fmt::format("… {:.0f} s", elapsed);
  if (share > 0.02 && elapsed > 1) times = show_seconds(elapsed / share * (1 - share)) + " left";
  if (!terminal_) {
    const std::string percent = total_ > 0 ? fmt::format(" {:.0f} %", 100 * share) : "";
    fmt::print(stderr, "{}{} {}\n", label_, percent, times);
  } else if (total_ <= 0) {
    fmt::print(stderr, "\r\x1b[K{} {}", label_, times);
  } else {
    constexpr std::size_t kWidth = 30;
    fmt::print(stderr, "\r\x1b[K{} {} {:3.0f} % {}", pad_right(label_, 28),
               pad_right(bar(share, kWidth), kWidth), 100 * share, times);
  }
  std::fflush(stderr);
}

}  // namespace jfa::tool
