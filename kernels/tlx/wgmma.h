// wgmma: the asynchronous matrix product of one warpgroup, sm_90a. D[64, N] (+)= A[64, 16] · B[16,
// N] for 16-bit elements with float32 accumulators. A comes from shared memory (ss) or registers
// (rs), B from shared memory. (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".)
//
// Accumulator fragment of thread t (warp w = t / 32 % 4, g = t % 32 / 4, q = t % 4): d[4j + {0, 1}]
// is row 16w + g, columns 8j + 2q + {0, 1}; d[4j + {2, 3}] the same columns of row 16w + g + 8.
// Packed in pairs to 16 bits, columns 16s … 16s + 15 are exactly the A fragment of k-step s:
// probabilities go from softmax to the second product without moving.
#pragma once

#include "tlx/base.h"

namespace jfa::tlx {

enum class Major : u32 {
  k = 0,
  mn = 1
};  // whether the contracted dimension is contiguous (k) or not (mn: transposed)

namespace ptx {

// wgmma.fence.sync.aligned; — before the first product, and whenever registers of one were touched
// by other code.
TLX_DEVICE void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// wgmma.commit_group.sync.aligned;
TLX_DEVICE void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// wgmma.wait_group.sync.aligned N; — all but the newest N groups are complete.
template <u32 kPending>
TLX_DEVICE void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// The instruction for N columns, N / 2 accumulator registers a thread, specialised below for every
// multiple of 16 up to 256; and `pin`, which keeps the compiler from moving reads or writes of
// accumulators across it: it does not know that wgmma is asynchronous.
template <u32 kColumns>
struct Wgmma {
  static_assert(kColumns % 16 == 0 && kColumns <= 256,
                "wgmma tiles have a multiple of 16 columns, at most 256: change the tile");
};

// Operand lists cannot be pack-expanded inside asm, so the registers are written out once, eight at
// a time. Four k-steps are one statement, because the compiler takes 5 ms for each that names 64
// accumulators, and a kernel has a hundred k-steps.
// clang-format off
#define TLX_REGISTERS_0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define TLX_REGISTERS_8 "%8, %9, %10, %11, %12, %13, %14, %15"
#define TLX_REGISTERS_16 "%16, %17, %18, %19, %20, %21, %22, %23"
#define TLX_REGISTERS_24 "%24, %25, %26, %27, %28, %29, %30, %31"
#define TLX_REGISTERS_32 "%32, %33, %34, %35, %36, %37, %38, %39"
#define TLX_REGISTERS_40 "%40, %41, %42, %43, %44, %45, %46, %47"
#define TLX_REGISTERS_48 "%48, %49, %50, %51, %52, %53, %54, %55"
#define TLX_REGISTERS_56 "%56, %57, %58, %59, %60, %61, %62, %63"
#define TLX_REGISTERS_64 "%64, %65, %66, %67, %68, %69, %70, %71"
#define TLX_REGISTERS_72 "%72, %73, %74, %75, %76, %77, %78, %79"
#define TLX_REGISTERS_80 "%80, %81, %82, %83, %84, %85, %86, %87"
#define TLX_REGISTERS_88 "%88, %89, %90, %91, %92, %93, %94, %95"
#define TLX_REGISTERS_96 "%96, %97, %98, %99, %100, %101, %102, %103"
#define TLX_REGISTERS_104 "%104, %105, %106, %107, %108, %109, %110, %111"
#define TLX_REGISTERS_112 "%112, %113, %114, %115, %116, %117, %118, %119"
#define TLX_REGISTERS_120 "%120, %121, %122, %123, %124, %125, %126, %127"
#define TLX_LIST_8 TLX_REGISTERS_0
#define TLX_LIST_16 TLX_LIST_8 ", " TLX_REGISTERS_8
#define TLX_LIST_24 TLX_LIST_16 ", " TLX_REGISTERS_16
#define TLX_LIST_32 TLX_LIST_24 ", " TLX_REGISTERS_24
#define TLX_LIST_40 TLX_LIST_32 ", " TLX_REGISTERS_32
#define TLX_LIST_48 TLX_LIST_40 ", " TLX_REGISTERS_40
#define TLX_LIST_56 TLX_LIST_48 ", " TLX_REGISTERS_48
#define TLX_LIST_64 TLX_LIST_56 ", " TLX_REGISTERS_56
#define TLX_LIST_72 TLX_LIST_64 ", " TLX_REGISTERS_64
#define TLX_LIST_80 TLX_LIST_72 ", " TLX_REGISTERS_72
#define TLX_LIST_88 TLX_LIST_80 ", " TLX_REGISTERS_80
#define TLX_LIST_96 TLX_LIST_88 ", " TLX_REGISTERS_88
#define TLX_LIST_104 TLX_LIST_96 ", " TLX_REGISTERS_96
#define TLX_LIST_112 TLX_LIST_104 ", " TLX_REGISTERS_104
#define TLX_LIST_120 TLX_LIST_112 ", " TLX_REGISTERS_112
#define TLX_LIST_128 TLX_LIST_120 ", " TLX_REGISTERS_120
#define TLX_ACCUMULATE_8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
    "+f"(d[i + 6]), "+f"(d[i + 7])
#define TLX_ACCUMULATORS_8 TLX_ACCUMULATE_8(0)
#define TLX_ACCUMULATORS_16 TLX_ACCUMULATORS_8, TLX_ACCUMULATE_8(8)
#define TLX_ACCUMULATORS_24 TLX_ACCUMULATORS_16, TLX_ACCUMULATE_8(16)
#define TLX_ACCUMULATORS_32 TLX_ACCUMULATORS_24, TLX_ACCUMULATE_8(24)
#define TLX_ACCUMULATORS_40 TLX_ACCUMULATORS_32, TLX_ACCUMULATE_8(32)
#define TLX_ACCUMULATORS_48 TLX_ACCUMULATORS_40, TLX_ACCUMULATE_8(40)
#define TLX_ACCUMULATORS_56 TLX_ACCUMULATORS_48, TLX_ACCUMULATE_8(48)
#define TLX_ACCUMULATORS_64 TLX_ACCUMULATORS_56, TLX_ACCUMULATE_8(56)
#define TLX_ACCUMULATORS_72 TLX_ACCUMULATORS_64, TLX_ACCUMULATE_8(64)
#define TLX_ACCUMULATORS_80 TLX_ACCUMULATORS_72, TLX_ACCUMULATE_8(72)
#define TLX_ACCUMULATORS_88 TLX_ACCUMULATORS_80, TLX_ACCUMULATE_8(80)
#define TLX_ACCUMULATORS_96 TLX_ACCUMULATORS_88, TLX_ACCUMULATE_8(88)
#define TLX_ACCUMULATORS_104 TLX_ACCUMULATORS_96, TLX_ACCUMULATE_8(96)
#define TLX_ACCUMULATORS_112 TLX_ACCUMULATORS_104, TLX_ACCUMULATE_8(104)
#define TLX_ACCUMULATORS_120 TLX_ACCUMULATORS_112, TLX_ACCUMULATE_8(112)
#define TLX_ACCUMULATORS_128 TLX_ACCUMULATORS_120, TLX_ACCUMULATE_8(120)

// One instruction; operands are numbers of the asm statement.
#define TLX_MULTIPLY(N, COUNT, A, B, ACCUMULATE, MAJORS, TYPE)                                                  \
  "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" TLX_LIST_##COUNT "}, " A ", %" #B ", "   \
  ACCUMULATE ", 1, 1, " MAJORS ";\n"
#define TLX_SHARED(A) "%" #A
#define TLX_FRAGMENT(A, B, C, D) "{%" #A ", %" #B ", %" #C ", %" #D "}"
#define TLX_PREDICATES(ACCUMULATE)                                                                              \
  "{\n.reg .pred accumulate, always;\nsetp.ne.b32 accumulate, %" #ACCUMULATE ", 0;\nsetp.eq.b32 always, 0, 0;\n"
#define TLX_INPUT_4(TYPE, a) TYPE(a[0]), TYPE(a[1]), TYPE(a[2]), TYPE(a[3])

#define TLX_WGMMA_SS(N, COUNT, A, B, ACCUMULATE, MAJOR_A, MAJOR_B, TYPE)                                        \
  asm volatile(TLX_PREDICATES(ACCUMULATE)                                                                       \
               TLX_MULTIPLY(N, COUNT, TLX_SHARED(A), B, "accumulate", "%" #MAJOR_A ", %" #MAJOR_B, TYPE) "}\n"  \
               : TLX_ACCUMULATORS_##COUNT                                                                       \
               : "l"(a), "l"(b), "r"(accumulate), "n"(static_cast<u32>(kMajorA)), "n"(static_cast<u32>(kMajorB)))

#define TLX_WGMMA_RS(N, COUNT, A0, A1, A2, A3, B, ACCUMULATE, MAJOR_B, TYPE)                                    \
  asm volatile(TLX_PREDICATES(ACCUMULATE)                                                                       \
               TLX_MULTIPLY(N, COUNT, TLX_FRAGMENT(A0, A1, A2, A3), B, "accumulate", "%" #MAJOR_B, TYPE) "}\n"  \
               : TLX_ACCUMULATORS_##COUNT                                                                       \
               : TLX_INPUT_4("r", a), "l"(b), "r"(accumulate), "n"(static_cast<u32>(kMajorB)))

#define TLX_WGMMA_SS4(N, COUNT, A0, A1, A2, A3, B0, B1, B2, B3, ACCUMULATE, MAJOR_A, MAJOR_B, TYPE)             \
  asm volatile(TLX_PREDICATES(ACCUMULATE)                                                                       \
               TLX_MULTIPLY(N, COUNT, TLX_SHARED(A0), B0, "accumulate", "%" #MAJOR_A ", %" #MAJOR_B, TYPE)      \
               TLX_MULTIPLY(N, COUNT, TLX_SHARED(A1), B1, "always", "%" #MAJOR_A ", %" #MAJOR_B, TYPE)          \
               TLX_MULTIPLY(N, COUNT, TLX_SHARED(A2), B2, "always", "%" #MAJOR_A ", %" #MAJOR_B, TYPE)          \
               TLX_MULTIPLY(N, COUNT, TLX_SHARED(A3), B3, "always", "%" #MAJOR_A ", %" #MAJOR_B, TYPE) "}\n"    \
               : TLX_ACCUMULATORS_##COUNT                                                                       \
               : TLX_INPUT_4("l", a), TLX_INPUT_4("l", b), "r"(accumulate), "n"(static_cast<u32>(kMajorA)),     \
                 "n"(static_cast<u32>(kMajorB)))

#define TLX_WGMMA_RS4(N, COUNT, A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11, A12, A13, A14, A15, B0, B1,   \
                      B2, B3, ACCUMULATE, MAJOR_B, TYPE)                                                        \
  asm volatile(TLX_PREDICATES(ACCUMULATE)                                                                       \
               TLX_MULTIPLY(N, COUNT, TLX_FRAGMENT(A0, A1, A2, A3), B0, "accumulate", "%" #MAJOR_B, TYPE)       \
               TLX_MULTIPLY(N, COUNT, TLX_FRAGMENT(A4, A5, A6, A7), B1, "always", "%" #MAJOR_B, TYPE)           \
               TLX_MULTIPLY(N, COUNT, TLX_FRAGMENT(A8, A9, A10, A11), B2, "always", "%" #MAJOR_B, TYPE)         \
               TLX_MULTIPLY(N, COUNT, TLX_FRAGMENT(A12, A13, A14, A15), B3, "always", "%" #MAJOR_B, TYPE) "}\n" \
               : TLX_ACCUMULATORS_##COUNT                                                                       \
               : TLX_INPUT_4("r", a[0]), TLX_INPUT_4("r", a[1]), TLX_INPUT_4("r", a[2]),                        \
                 TLX_INPUT_4("r", a[3]), TLX_INPUT_4("l", b), "r"(accumulate), "n"(static_cast<u32>(kMajorB)))

// ss, rs: one k-step of 16. ss4, rs4: four of them, the descriptors and fragments of each in a row.
#define TLX_DEFINE_WGMMA(N, COUNT, O0, O1, O2, O3, O4, O5, O6, O7, O8, O9, O10, O11, O12, O13, O14, O15, O16,   \
                         O17, O18, O19, O20, O21)                                                               \
  template <>                                                                                                   \
  struct Wgmma<N> {                                                                                             \
    static TLX_DEVICE void pin(float (&d)[COUNT]) {                                                             \
      asm volatile("" : TLX_ACCUMULATORS_##COUNT::"memory");                                                    \
    }                                                                                                           \
    template <typename Element, Major kMajorA, Major kMajorB>                                                   \
    static TLX_DEVICE void ss(float (&d)[COUNT], u64 a, u64 b, u32 accumulate) {                                \
      if constexpr (is_same<Element, bf16>) {                                                                   \
        TLX_WGMMA_SS(N, COUNT, O0, O1, O2, O3, O4, "bf16");                                                     \
      } else {                                                                                                  \
        TLX_WGMMA_SS(N, COUNT, O0, O1, O2, O3, O4, "f16");                                                      \
      }                                                                                                         \
    }                                                                                                           \
    template <typename Element, Major kMajorA, Major kMajorB>                                                   \
    static TLX_DEVICE void ss4(float (&d)[COUNT], const u64 (&a)[4], const u64 (&b)[4], u32 accumulate) {       \
      if constexpr (is_same<Element, bf16>) {                                                                   \
        TLX_WGMMA_SS4(N, COUNT, O0, O1, O2, O3, O4, O5, O6, O7, O8, O9, O10, "bf16");                           \
      } else {                                                                                                  \
        TLX_WGMMA_SS4(N, COUNT, O0, O1, O2, O3, O4, O5, O6, O7, O8, O9, O10, "f16");                            \
      }                                                                                                         \
    }                                                                                                           \
    template <typename Element, Major kMajorB>                                                                  \
    static TLX_DEVICE void rs(float (&d)[COUNT], const u32 (&a)[4], u64 b, u32 accumulate) {                    \
      if constexpr (is_same<Element, bf16>) {                                                                   \
        TLX_WGMMA_RS(N, COUNT, O0, O1, O2, O3, O4, O5, O6, "bf16");                                             \
      } else {                                                                                                  \
        TLX_WGMMA_RS(N, COUNT, O0, O1, O2, O3, O4, O5, O6, "f16");                                              \
      }                                                                                                         \
    }                                                                                                           \
    template <typename Element, Major kMajorB>                                                                  \
    static TLX_DEVICE void rs4(float (&d)[COUNT], const u32 (*a)[4], const u64 (&b)[4], u32 accumulate) {       \
      if constexpr (is_same<Element, bf16>) {                                                                   \
        TLX_WGMMA_RS4(N, COUNT, O0, O1, O2, O3, O4, O5, O6, O7, O8, O9, O10, O11, O12, O13, O14, O15, O16, O17, \
                      O18, O19, O20, O21, "bf16");                                                              \
      } else {                                                                                                  \
        TLX_WGMMA_RS4(N, COUNT, O0, O1, O2, O3, O4, O5, O6, O7, O8, O9, O10, O11, O12, O13, O14, O15, O16, O17, \
                      O18, O19, O20, O21, "f16");                                                               \
      }                                                                                                         \
    }                                                                                                           \
  };

TLX_DEFINE_WGMMA(16, 8, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29)
TLX_DEFINE_WGMMA(32, 16, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37)
TLX_DEFINE_WGMMA(48, 24, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45)
TLX_DEFINE_WGMMA(64, 32, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53)
TLX_DEFINE_WGMMA(80, 40, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61)
TLX_DEFINE_WGMMA(96, 48, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69)
TLX_DEFINE_WGMMA(112, 56, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77)
TLX_DEFINE_WGMMA(128, 64, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85)
TLX_DEFINE_WGMMA(144, 72, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93)
TLX_DEFINE_WGMMA(160, 80, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, 101)
TLX_DEFINE_WGMMA(176, 88, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109)
TLX_DEFINE_WGMMA(192, 96, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117)
TLX_DEFINE_WGMMA(208, 104, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125)
TLX_DEFINE_WGMMA(224, 112, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 131, 132, 133)
TLX_DEFINE_WGMMA(240, 120, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139, 140, 141)
TLX_DEFINE_WGMMA(256, 128, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139, 140, 141, 142, 143, 144, 145, 146, 147, 148, 149)
// clang-format on

}  // namespace ptx
}  // namespace jfa::tlx
