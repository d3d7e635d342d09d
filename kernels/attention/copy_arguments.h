// The by-value argument of copy_rows, shared by host and device.
#pragma once

namespace jfa::kernels {

// Copies [batch, rows, heads, dim] elements of 16 bits between two layouts. Strides count elements.
struct RowCopy {
  const unsigned short* from = nullptr;
  unsigned short* to = nullptr;
  long long batch = 0, rows = 0, heads = 0;
  long long from_batch = 0, from_row = 0, from_head = 0;
  long long to_batch = 0, to_row = 0, to_head = 0;
  int dim = 0;                   // multiple of kCopyColumns
  unsigned short keep = 0xffff;  // bits of an element that are copied
  unsigned short flip = 0;       // bits that are inverted then: the sign is the highest one
};

constexpr int kCopyColumns = 8;  // columns that a thread moves at a time
constexpr int kCopyThreads = 256;
constexpr int kMostCopies = 3;

// Copies of one launch; blockIdx.y is the number of one.
struct CopyArguments {
  RowCopy copies[kMostCopies];
};

}  // namespace jfa::kernels
