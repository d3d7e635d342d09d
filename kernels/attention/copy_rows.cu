// Copies tensors that a tensor map cannot describe into aligned rows, and an output back: addresses
// and strides of any number of elements. Queries may change their sign on the way.
#include "attention/copy_arguments.h"
#include "tlx/base.h"

namespace jfa::kernels {

struct alignas(16) CopyPiece {
  unsigned short elements[kCopyColumns];
};

TLX_DEVICE CopyPiece load_piece(const unsigned short* from) {
  if (reinterpret_cast<unsigned long long>(from) % sizeof(CopyPiece) == 0)
    return *reinterpret_cast<const CopyPiece*>(from);
  CopyPiece piece;
#pragma unroll
  for (int i = 0; i < kCopyColumns; ++i) piece.elements[i] = from[i];
  return piece;
}

TLX_DEVICE void store_piece(unsigned short* to, const CopyPiece& piece) {
  if (reinterpret_cast<unsigned long long>(to) % sizeof(CopyPiece) == 0) {
    *reinterpret_cast<CopyPiece*>(to) = piece;
    return;
  }
#pragma unroll
  for (int i = 0; i < kCopyColumns; ++i) to[i] = piece.elements[i];
}

__global__ void __launch_bounds__(kCopyThreads)
    copy_rows(const __grid_constant__ CopyArguments arguments) {
  const RowCopy& copy = arguments.copies[blockIdx.y];
  const int pieces = copy.dim / kCopyColumns;
  const long long count = copy.batch * copy.rows * copy.heads * pieces;
  const long long step = static_cast<long long>(gridDim.x) * kCopyThreads;
  for (long long i = static_cast<long long>(blockIdx.x) * kCopyThreads + threadIdx.x; i < count;
       i += step) {
    const int column = static_cast<int>(i % pieces) * kCopyColumns;
    const long long line = i / pieces;
    const long long head = line % copy.heads;
    const long long row = line / copy.heads % copy.rows;
    const long long batch = line / copy.heads / copy.rows;
    const unsigned short* from =
        copy.from + batch * copy.from_batch + row * copy.from_row + head * copy.from_head + column;
    CopyPiece piece = load_piece(from);
#pragma unroll
    for (int e = 0; e < kCopyColumns; ++e)
      piece.elements[e] = (piece.elements[e] & copy.keep) ^ copy.flip;
    store_piece(copy.to + batch * copy.to_batch + row * copy.to_row + head * copy.to_head + column,
                piece);
  }
}

}  // namespace jfa::kernels
