// The float32 multiply-add peak of this machine: prints GFLOP/s that `threads` threads reach
// together with 12 independent chains each, which is what no matrix product can exceed.
//
//   cpu_peak [threads] [seconds]
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/cpu_peak.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

HWY_BEFORE_NAMESPACE();
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Runs `steps` multiply-adds in each of 12 chains; returns their FLOPs.
double multiply_add(std::int64_t steps, float* sink) {
  const hn::ScalableTag<float> f32;
  const auto factor = hn::Set(f32, 0.999F);
  const auto term = hn::Set(f32, 1e-6F);
  auto a = hn::Set(f32, 0.1F), b = a, c = a, d = a, e = a, f = a;
  auto g = a, h = a, i = a, j = a, k = a, l = a;
  for (std::int64_t step = 0; step < steps; ++step) {
    a = hn::MulAdd(a, factor, term);
    b = hn::MulAdd(b, factor, term);
    c = hn::MulAdd(c, factor, term);
    d = hn::MulAdd(d, factor, term);
    e = hn::MulAdd(e, factor, term);
    f = hn::MulAdd(f, factor, term);
    g = hn::MulAdd(g, factor, term);
    h = hn::MulAdd(h, factor, term);
    i = hn::MulAdd(i, factor, term);
    j = hn::MulAdd(j, factor, term);
    k = hn::MulAdd(k, factor, term);
    l = hn::MulAdd(l, factor, term);
  }
  const auto sum = hn::Add(
      hn::Add(hn::Add(a, b), hn::Add(c, d)),
      hn::Add(hn::Add(hn::Add(e, f), hn::Add(g, h)), hn::Add(hn::Add(i, j), hn::Add(k, l))));
  *sink = hn::GetLane(sum);
  return 2.0 * 12 * static_cast<double>(hn::Lanes(f32)) * static_cast<double>(steps);
}

}  // namespace HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
HWY_EXPORT(multiply_add);

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  const int threads =
      argc > 1 ? std::atoi(argv[1]) : static_cast<int>(std::thread::hardware_concurrency());
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.2;
  std::vector<double> rates(static_cast<std::size_t>(std::max(1, threads)));
  std::vector<std::thread> workers;
  for (double& rate : rates) {
    workers.emplace_back([&rate, seconds] {
      float sink = 0;
      const auto start = Clock::now();
      double flops = 0;
      double elapsed = 0;
      do {
        flops += HWY_DYNAMIC_DISPATCH(multiply_add)(100000, &sink);
        elapsed = std::chrono::duration<double>(Clock::now() - start).count();
      } while (elapsed < seconds);
      volatile float keep = sink;
      (void)keep;
      rate = flops / elapsed * 1e-9;
    });
  }
  for (std::thread& worker : workers) worker.join();
  double total = 0;
  for (const double rate : rates) total += rate;
  std::printf("%.1f\n", total);
  return 0;
}
#endif
