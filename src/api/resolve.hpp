// Steps of validation that turn arguments into a Call. validate_inputs runs them in this order.
#pragma once

#include <cstdint>

#include "api/call.hpp"

namespace jfa::detail {

// Engines take 16- and 32-bit inputs of one type; the float64 reference takes any floating types.
enum class Purpose : std::uint8_t { engine, reference };

// Shapes of q, k and v, batch, scale, and everything else that needs no value of a tensor.
CallShape resolve_shape(const AttentionArgs& args, Purpose purpose);

// The shape, then the sequences with their masks.
Call resolve_call(const AttentionArgs& args, Purpose purpose);

// Shapes and types of what resolve_sequences reads. Needs shape.batch and shape.kv_batch.
void check_sequences(const AttentionArgs& args, const CallShape& shape);
// Fills call.sequences from offsets, used lengths and kv_map.
void resolve_sequences(const AttentionArgs& args, Call& call);

// The mask's kind, the shapes of its tensors, and the parameters that all sequences share.
void check_mask(const Mask& mask, const CallShape& shape);
// Checks parameters that differ by sequence and fills SequenceView::mask. Needs call.sequences.
void resolve_mask(const Mask& mask, Call& call);

// Shapes and types of the biases.
void check_bias(const AttentionArgs& args, const CallShape& shape, Purpose purpose);
// That the dense bias is as large as the longest sequences. Needs call.sequences.
void check_bias_extent(const AttentionArgs& args, const Call& call);

// Query rows that time stamps count: dense queries batch · rows, else the rows of q; likewise keys.
std::int64_t stored_rows(const Tensor& rows, Layout layout);

}  // namespace jfa::detail
