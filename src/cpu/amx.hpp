// Products of bfloat16 matrices on AMX, the tile registers of Intel processors since 2023: 16 rows
// of 64 bytes each, 16×16×32 multiply-adds an instruction. Highway knows no tiles, so this is the
// one place with intrinsics.
#pragma once

#include <cstdint>

namespace jfa::cpu {

// Whether this processor has AMX for bfloat16 and the kernel lets this process use it; asked once.
// JFA_AMX=0 in the environment switches it off, JFA_AMX=emulated computes the same in plain loops,
// for tests on other processors.
bool amx_usable();

// While one lives, its thread's tiles are configured: 8 of 16 rows × 64 bytes.
class AmxTiles {
 public:
  AmxTiles();
  ~AmxTiles();
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
};

// Sizes in elements, strides in bytes. A: bfloat16 [rows][depth]; B: pairs of consecutive rows of a
// [depth][columns] matrix, bfloat16 [depth / 2][columns][2]; C: float32 [rows][columns].
struct AmxProduct {
  std::int64_t rows = 0;     // a multiple of 16
  std::int64_t columns = 0;  // a multiple of 16
  std::int64_t depth = 0;    // a multiple of 32
  const void* a = nullptr;
  std::int64_t a_stride = 0;
  const void* b = nullptr;
  std::int64_t b_stride = 0;
  float* c = nullptr;
  std::int64_t c_stride = 0;
  bool add = false;  // C += A·B in place of C = A·B
};
void amx_multiply(const AmxProduct& product);

}  // namespace jfa::cpu
