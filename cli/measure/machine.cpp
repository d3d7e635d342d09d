// Peak rates, measured with the same SIMD dispatch as the engine.
#include "measure/machine.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "measure/machine.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace jfa::tool::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Independent chains of multiply-adds, enough to hide their latency (4 cycles, 2 a cycle) while
// staying in registers. Returns the number of operations; `sink` keeps the compiler from dropping
// them.
double MultiplyAdd(std::int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999999F);
  const auto term = hn::Set(d, 1e-6F);
  auto a0 = hn::Iota(d, 0), a1 = hn::Iota(d, 1), a2 = hn::Iota(d, 2), a3 = hn::Iota(d, 3);
  auto a4 = hn::Iota(d, 4), a5 = hn::Iota(d, 5), a6 = hn::Iota(d, 6), a7 = hn::Iota(d, 7);
  auto a8 = hn::Iota(d, 8), a9 = hn::Iota(d, 9), a10 = hn::Iota(d, 10), a11 = hn::Iota(d, 11);
  for (std::int64_t i = 0; i < rounds; ++i) {
    a0 = hn::MulAdd(a0, factor, term);
    a1 = hn::MulAdd(a1, factor, term);
    a2 = hn::MulAdd(a2, factor, term);
    a3 = hn::MulAdd(a3, factor, term);
    a4 = hn::MulAdd(a4, factor, term);
    a5 = hn::MulAdd(a5, factor, term);
    a6 = hn::MulAdd(a6, factor, term);
    a7 = hn::MulAdd(a7, factor, term);
    a8 = hn::MulAdd(a8, factor, term);
    a9 = hn::MulAdd(a9, factor, term);
    a10 = hn::MulAdd(a10, factor, term);
    a11 = hn::MulAdd(a11, factor, term);
  }
  const auto sum = hn::Add(
      hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(hn::Add(a4, a5), hn::Add(a6, a7))),
      hn::Add(hn::Add(a8, a9), hn::Add(a10, a11)));
  *sink = hn::GetLane(sum);
  return 12.0 * 2.0 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

// Reads `count` floats, a multiple of four vectors.
float Sum(const float* data, std::size_t count) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  for (std::size_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, data + i));
    s1 = hn::Add(s1, hn::LoadU(d, data + i + lanes));
    s2 = hn::Add(s2, hn::LoadU(d, data + i + 2 * lanes));
    s3 = hn::Add(s3, hn::LoadU(d, data + i + 3 * lanes));
  }
  return hn::GetLane(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

const char* TargetName() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace jfa::tool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace jfa::tool {
namespace {

HWY_EXPORT(MultiplyAdd);
HWY_EXPORT(Sum);
HWY_EXPORT(TargetName);

using Clock = std::chrono::steady_clock;

constexpr auto kPeriod = std::chrono::milliseconds(60);
constexpr int kPeriods = 3;  // the best counts: others may use the machine too

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Runs `work` (which returns how much it did) over and over on all threads at once for a period;
// returns the sum of the rates.
double rate_of(int threads, const std::function<double(int thread)>& work) {
  double best = 0;
  for (int period = 0; period < kPeriods; ++period) {
    std::vector<double> rates(static_cast<std::size_t>(threads));
    std::vector<std::thread> workers;
    workers.reserve(static_cast<std::size_t>(threads));
    std::atomic<int> waiting = threads;
    for (int thread = 0; thread < threads; ++thread) {
      workers.emplace_back([&, thread] {
        --waiting;
        while (waiting.load() > 0) std::this_thread::yield();
        const Clock::time_point start = Clock::now();
        double done = 0;
        while (Clock::now() - start < kPeriod) done += work(thread);
        rates[static_cast<std::size_t>(thread)] = done / seconds_since(start);
      });
    }
    for (std::thread& worker : workers) worker.join();
    double sum = 0;
    for (const double rate : rates) sum += rate;
    best = std::max(best, sum);
  }
  return best;
}

double measure_flops(int threads) {
  return rate_of(threads, [](int) {
    float sink = 0;
    const double done = HWY_DYNAMIC_DISPATCH(MultiplyAdd)(20'000, &sink);
    static std::atomic<float> keep;
    keep.store(sink, std::memory_order_relaxed);
    return done;
  });
}

double measure_bandwidth(int threads) {
  // Far larger than the caches.
  constexpr std::size_t kFloats = std::size_t{64} << 20;  // 256 MiB
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  const std::vector<float> data(kFloats, 1.0F);
  const std::size_t share = kFloats / static_cast<std::size_t>(threads) / kPiece * kPiece;
  std::vector<std::size_t> places(static_cast<std::size_t>(threads), 0);
  return rate_of(threads, [&](int thread) {
    std::size_t& place = places[static_cast<std::size_t>(thread)];
    const std::size_t begin = static_cast<std::size_t>(thread) * share;
    static std::atomic<float> keep;
    keep.store(HWY_DYNAMIC_DISPATCH(Sum)(data.data() + begin + place, kPiece),
               std::memory_order_relaxed);
    place = place + 2 * kPiece > share ? 0 : place + kPiece;
    return static_cast<double>(kPiece * sizeof(float));
  });
}

}  // namespace

std::string simd_target() {
  return HWY_DYNAMIC_DISPATCH(TargetName)();
}

int available_threads() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

MachinePeak measure_machine_peak(int threads) {
  MachinePeak peak;
  peak.threads = threads > 0 ? threads : available_threads();
  peak.flops = measure_flops(peak.threads);
  peak.bandwidth = measure_bandwidth(peak.threads);
  peak.target = simd_target();
  return peak;
}

double available_memory() {
  double available = std::numeric_limits<double>::infinity();
  std::ifstream file("/proc/meminfo");
  std::string name;
  for (double kibibytes = 0; file >> name >> kibibytes; file.ignore(100, '\n')) {
    if (name == "MemAvailable:") available = kibibytes * 1024;
  }
  double limit = 0;
  double used = 0;  // counts pages of files too, which would make way: a safe guess
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit &&
      std::ifstream("/sys/fs/cgroup/memory.current") >> used) {
    available = std::min(available, limit - used);
  }
  return available;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kKey = "model name";
    if (!line.starts_with(kKey)) continue;
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 < line.size()) return line.substr(colon + 2);
  }
  return "unknown processor";
}

}  // namespace jfa::tool
#endif
