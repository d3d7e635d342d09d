// The choice of kernels. Pure: the same shapes give the same kernels on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/call.hpp"
#include "attention/sm90/forward_shape.h"

namespace jfa::gpu {

// What distinguishes the instances of the forward kernel.
struct ForwardKey {
  DType element = DType::bfloat16;
  int dim = 0;  // D, Dv
  int value_dim = 0;
  Activation activation = Activation::softmax;
  MaskKind mask = MaskKind::full;
  int packed_heads = 1;
  bool out_scales = false;  // one factor a sequence or token
  bool long_keys = false;   // key sequences are long on average: larger key blocks

  bool operator==(const ForwardKey&) const = default;
};

// Throws Unsupported when no kernel serves the arguments, with what is supported and what to do.
void require_covered(const AttentionArgs& args, const detail::CallShape& shape,
                     std::string_view architecture);

ForwardKey forward_key(const AttentionArgs& args, const detail::CallShape& shape);
inline kernels::sm90::ForwardShape shape_of(const ForwardKey& key) {
  return kernels::sm90::forward_shape(key.dim, key.value_dim, key.long_keys);
}

constexpr std::string_view kForwardSource = "attention/sm90/forward.cu";
std::string entry_of(const ForwardKey& key);
std::string_view kernel_name(MaskKind mask);  // of MaskParameters::Kind

// The copy of unaligned tensors.
constexpr std::string_view kCopySource = "attention/copy_rows.cu";
constexpr std::string_view kCopyEntry = "jfa::kernels::copy_rows";

}  // namespace jfa::gpu
