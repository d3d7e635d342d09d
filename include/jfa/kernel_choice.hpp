// Which kernels serve a call on an architecture, and why: what `jfa explain` prints and `jfa
// bundle` compiles. Needs no device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jfa/attention.hpp"
#include "jfa/jit.hpp"

namespace jfa {

struct KernelChoice {
  std::string name;  // "Hopper forward"
  std::string architecture;
  std::string source;    // below kernels/
  std::string entry;     // the instance, as C++ writes it
  int dim = 0;           // columns of q and k in shared memory; D and zeros
  int value_dim = 0;     // of v and out
  int key_block = 0;     // key rows of one block
  int stages = 0;        // blocks of keys and values in flight
  int packed_heads = 1;  // query heads that share a tile and its keys
  int tile_rows = 0;     // query rows of a tile, of each packed head
  int threads = 0;       // of a block
  int shared_bytes = 0;  // dynamic, of a block
  // What was decided and what was not chosen, each with its reason.
  std::vector<std::string> reasons;
};

// What runs attention_forward with these arguments. Reads shapes, strides and addresses only.
// Throws as attention_forward, Unsupported with what is supported when no kernel serves the call.
KernelChoice choose_forward(const ForwardArgs& args, std::string_view architecture);

// Everything the call launches: the chosen kernel, the plan's, and the copies of unaligned tensors.
std::vector<jit::KernelRequest> kernel_requests(const ForwardArgs& args,
                                                std::string_view architecture, jit::ImageKind kind);

// Several lines for a person.
std::string to_string(const KernelChoice& choice);

}  // namespace jfa
