// Rate of the tensor-core functions and of the box walk alone, in processor time of one core.
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "tensor/mma.hpp"
#include "tensor/wgmma.hpp"
#include "tma/box.hpp"

namespace {

using namespace ptxemu;
using tensor::ElementType;

constexpr double kSecondsPerMeasurement = 0.2;

template <class Work>
double seconds_per_call(const Work& work) {
  for (long calls = 16;; calls *= 2) {
    const std::clock_t start = std::clock();
    for (long i = 0; i < calls; ++i) work();
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    if (seconds > kSecondsPerMeasurement) return seconds / static_cast<double>(calls);
  }
}

/// Registers with random contents that are small numbers in every format.
struct Registers {
  explicit Registers(unsigned count) : words(count * 32) {
    for (unsigned i = 0; i < count; ++i) lanes.push_back(words.data() + 32 * i);
    const_lanes.assign(lanes.begin(), lanes.end());
  }
  std::vector<std::uint32_t> words;
  std::vector<tensor::LaneRegister> lanes;
  std::vector<tensor::ConstLaneRegister> const_lanes;
};

void wgmma_rate(const char* name, tensor::WgmmaShape shape, bool a_in_registers,
                tensor::Major b_major) {
  std::mt19937 random(1);
  std::vector<std::byte> shared(160 * 1024);
  for (std::byte& byte : shared) byte = static_cast<std::byte>(random() & 0x3f);
  Registers d(4 * shape.d_registers()), a(16);
  tensor::MatrixDescriptor descriptor{.leading_byte_offset = 16384,
                                      .stride_byte_offset = 1024,
                                      .swizzle = tensor::SwizzleMode::bytes128};
  tensor::WgmmaOperands operands;
  operands.a_descriptor = descriptor.encode();
  operands.b_major = b_major;
  operands.d_registers = d.lanes;
  descriptor.start_address = 65536;
  operands.b_descriptor = descriptor.encode();
  if (a_in_registers) operands.a_registers = a.const_lanes;
  const double seconds = seconds_per_call([&] { tensor::wgmma(shape, operands, shared); });
  const double flops = 2.0 * 64 * shape.n * shape.k();
  std::printf("wgmma m64n%uk%u %-22s %8.2f us  %6.1f GFLOP/s\n", shape.n, shape.k(), name,
              seconds * 1e6, flops / seconds * 1e-9);
}

void mma_rate(const char* name, const tensor::MmaShape& shape) {
  const tensor::MmaRegisters count = tensor::mma_registers(shape);
  Registers a(count.a), b(count.b), c(count.c), d(count.d);
  const double seconds = seconds_per_call(
      [&] { tensor::mma(shape, a.const_lanes, b.const_lanes, c.const_lanes, d.lanes); });
  std::printf("mma %-32s %8.2f us\n", name, seconds * 1e6);
}

void box_rate(const char* name, tma::Swizzle swizzle) {
  tma::TensorMap map;
  map.type = tma::DataType::bf16;
  map.rank = 2;
  map.size = {1024, 1024};
  map.stride = {2, 2048};
  map.box = {64, 128};
  map.element_stride = {1, 1};
  map.swizzle = swizzle;
  const std::int32_t at[] = {64, 128};
  std::vector<tma::BoxRun> runs;
  const double seconds = seconds_per_call([&] {
    runs.clear();
    tma::append_box_runs(map, at, 1024, tma::Direction::load, runs);
  });
  std::printf("box of 16 KiB, %-21s %8.2f us  %6.1f GB/s\n", name, seconds * 1e6,
              16384 / seconds * 1e-9);
}

}  // namespace

int main() {
  using E = ElementType;
  using tensor::Major;
  wgmma_rate("bf16, A shared", {.n = 128}, false, Major::k);
  wgmma_rate("bf16, A shared, B MN", {.n = 128}, false, Major::mn);
  wgmma_rate("bf16, A registers", {.n = 128}, true, Major::k);
  wgmma_rate("bf16, A shared", {.n = 256}, false, Major::k);
  wgmma_rate("bf16, A shared", {.n = 64}, false, Major::k);
  wgmma_rate("f16, A shared", {.n = 128, .a = E::f16, .b = E::f16}, false, Major::k);
  wgmma_rate("f16 accumulators", {.n = 128, .d = E::f16, .a = E::f16, .b = E::f16}, false,
             Major::k);
  wgmma_rate("tf32, A shared", {.n = 128, .a = E::tf32, .b = E::tf32}, false, Major::k);
  wgmma_rate("e4m3, A shared", {.n = 128, .a = E::e4m3, .b = E::e4m3}, false, Major::k);
  wgmma_rate("s8, A shared", {.n = 128, .d = E::s32, .a = E::s8, .b = E::s8}, false, Major::k);
  mma_rate("m16n8k16.f32.bf16", {.a = E::bf16, .b = E::bf16});
  mma_rate("m16n8k32.s32.s8", {.k = 32, .d = E::s32, .a = E::s8, .b = E::s8, .c = E::s32});
  box_rate("no swizzle", tma::Swizzle::none);
  box_rate("128-byte swizzle", tma::Swizzle::bytes128);
  return 0;
}
