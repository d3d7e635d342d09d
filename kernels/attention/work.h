// What a kernel takes from the plan: one work item is a tile of query rows in one head. Shared by
// host and device.
#pragma once

namespace jfa::kernels {

// Up to 128 query rows that are contiguous in memory, and the contiguous key rows they may see.
// Rows and keys are absolute rows of the packed tensors, at most 2³⁰ of them.
struct alignas(16) TileWork {
  int q_first;  // first query row
  int rows;     // 1 … tile rows
  int k_first;  // first key row of the first sequence in the tile
  int k_begin;  // first key row any row sees, counted from k_first; a multiple of the key block for
                // one sequence
  int k_end;    // end of the keys any row sees, counted from k_first
  int sequence;    // first sequence
  int sequences;   // 1, or more when short neighbours share the tile
  int q_offset;    // row within its sequence of the first query row
  int q_length;    // of the first sequence
  int k_length;    // of the first sequence
  int full_begin;  // keys [full_begin, full_end), counted from k_first, are seen by every row:
                   // whole blocks of them need no mask
  int full_end;
};
static_assert(sizeof(TileWork) == 48);

}  // namespace jfa::kernels
