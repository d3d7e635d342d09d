// Steps of validation that turn arguments into a Call. validate_inputs runs them in this order.
#pragma once

#include <cstdint>

#include "api/call.hpp"

namespace jfa::detail {

// Engines take 16- and 32-bit inputs of one type; the float64 reference takes any floating types.
enum class Purpose : std::uint8_t { engine, reference };

// Shapes of q, k and v, batch, scale; then the sequences with their masks.
Call resolve_call(const AttentionArgs& args, Purpose purpose);

// Fills call.sequences from offsets, used lengths and kv_map. Needs call.batch and call.kv_batch.
void resolve_sequences(const AttentionArgs& args, Call& call);

// Checks the mask's parameters and fills SequenceView::mask. Needs call.sequences.
void resolve_mask(const Mask& mask, Call& call);

// Checks shapes and types of the biases. Needs call.sequences.
void validate_bias(const AttentionArgs& args, const Call& call, Purpose purpose);

// Query rows that time stamps count: dense queries batch · rows, else the rows of q; likewise keys.
std::int64_t stored_rows(const Tensor& rows, Layout layout);

}  // namespace jfa::detail
