#include "terminal/interrupt.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <string_view>

namespace jfa::tool {
namespace {

// A signal handler may touch lock-free atomics and memory that nobody else changes meanwhile.
std::atomic<bool> bar_shown = false;
std::atomic<bool> file_unfinished = false;
std::array<char, 4096> unfinished_file{};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void handle_interrupt(int signal) {
  if (bar_shown) {
    constexpr std::string_view kWipe = "\r\x1b[K";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kWipe.data(), kWipe.size());
  }
  if (file_unfinished) unlink(unfinished_file.data());
  std::raise(signal);  // SA_RESETHAND: now with its default action
}

}  // namespace

void clean_up_when_interrupted() {
  struct sigaction action {};
  action.sa_handler = handle_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction current {};
    sigaction(signal, nullptr, &current);
    if (current.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);  // nohup stays nohup
  }
}

void bar_on_terminal(bool shown) {
  bar_shown = shown;
}

void set_unfinished_file(const std::string& path) {
  file_unfinished = false;
  if (path.empty() || path.size() >= unfinished_file.size()) return;
  *std::copy(path.begin(), path.end(), unfinished_file.begin()) = '\0';
  file_unfinished = true;
}

}  // namespace jfa::tool
