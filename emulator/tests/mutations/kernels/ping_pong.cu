// Two groups of 64 threads take turns on one buffer by named barriers: group 0 fills, group 1 drains.
#include "sm90.cuh"

constexpr int kGroup = 64;
constexpr int kFilled = 1, kDrained = 2;

extern "C" __global__ void __launch_bounds__(2 * kGroup) ping_pong(const float* x, float* out, int rounds) {
  __shared__ float buffer[kGroup];
  const int thread = threadIdx.x % kGroup;
  if (threadIdx.x < kGroup) {
    for (int round = 0; round < rounds; ++round) {
      if (round > 0) named_sync(kDrained, 2 * kGroup);
      buffer[thread] = x[round * kGroup + thread];
      named_arrive(kFilled, 2 * kGroup);
    }
  } else {
    for (int round = 0; round < rounds; ++round) {
      named_sync(kFilled, 2 * kGroup);
      out[round * kGroup + thread] = buffer[kGroup - 1 - thread];
      if (round + 1 < rounds) named_arrive(kDrained, 2 * kGroup);
    }
  }
}
