// Attention over three user histories of 3, 0 and 5 events: no padding, no mask tensor.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "jfa/jfa.hpp"

int main() {
  constexpr std::int64_t total = 8, heads = 2, dim = 16;
  std::vector<std::int32_t> offsets = {0, 3, 3, 8};
  std::vector<float> qkv(total * 3 * heads * dim, 0.5F), out(total * heads * dim);

  jfa::ForwardArgs args;
  args.q = jfa::contiguous(qkv.data(), jfa::DType::float32, {total, 3 * heads, dim});
  args.q.shape[1] = heads;  // q, k and v are views of one fused buffer
  args.k = args.v = args.q;
  args.k.data = qkv.data() + heads * dim;
  args.v.data = qkv.data() + 2 * heads * dim;
  args.q_sequences.offsets = jfa::contiguous(offsets.data(), jfa::DType::int32, {4});
  args.kv_sequences = args.q_sequences;
  args.mask.kind = jfa::MaskKind::causal;
  args.out = jfa::contiguous(out.data(), jfa::DType::float32, {total, heads, dim});
  jfa::attention_forward(args);
  std::printf("out[0] = %.3f\n", static_cast<double>(out[0]));
}
