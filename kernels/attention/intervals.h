// A mask is a set of key intervals per query row. This header is the one place that turns a mask
// into intervals, for the CPU engine, the plan and the GPU kernels alike; it includes nothing, so
// that it also compiles at run time for a GPU.
#pragma once

#if defined(__CUDACC__)
#define JFA_HOST_DEVICE __host__ __device__
#else
#define JFA_HOST_DEVICE
#endif

namespace jfa::kernels {

// The mask of one sequence, all parameters resolved (docs/contract.md, "Masks").
struct MaskParameters {
  enum Kind : int { full, causal, window, hstu, prefix_local, blocks, intervals };

  int kind = full;
  int bottom_right = 1;  // position of query row i: i + Lk − Lq, else i
  int hstu_causal = 1;
  long long left = -1;  // window; negative: no bound
  long long right = -1;
  long long contextual = 0;  // hstu
  long long targets = 0;
  long long target_group = 1;
  long long max_attention_length = 0;
  long long min_full_attention = 0;
  long long prefix = 0;  // prefix_local
  long long local = 0;
  long long block = 1;  // blocks
};

// Keys [lo0, hi0) ∪ [lo1, hi1) of the sequence; disjoint, ascending, inside [0, Lk); an empty
// interval has lo == hi.
struct RowIntervals {
  long long lo0 = 0, hi0 = 0;
  long long lo1 = 0, hi1 = 0;
};

}  // namespace jfa::kernels
