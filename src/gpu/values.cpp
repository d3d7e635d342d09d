#include "gpu/values.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "api/resolve.hpp"
#include "gpu/engine.hpp"
#include "jfa/error.hpp"
#include "plan/plan_data.hpp"

namespace jfa::gpu {
namespace {

bool checks_are_on() {
  const char* text = std::getenv("JFA_CHECK");
  return text != nullptr && std::string_view(text) != "0" && *text != '\0';
}

std::int64_t span_of(const Tensor& tensor) {
  if (tensor.elements() == 0) return 0;
  std::int64_t last = 1;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(tensor.rank); ++axis) {
    last += (tensor.shape[axis] - 1) * tensor.strides[axis];
  }
  return last;
}

template <typename T>
std::vector<T> copied_back(const DevicePlan& plan, const T* from, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  runtime::Context& context = plan.gpu->context();
  context.copy(values.data(), from, values.size() * sizeof(T), plan.stream);
  context.synchronize(plan.stream);
  return values;
}

void require_same_rows(const DevicePlan& plan, const detail::Call& call) {
  const auto planned = copied_back(plan, plan.parts.sequences, plan.shape.batch);
  const bool dense_q = plan.shape.q_layout == Layout::dense;
  const bool dense_k = plan.shape.kv_layout == Layout::dense;
  for (const detail::SequenceView& sequence : call.sequences) {
    const kernels::SequenceRows& p = planned[static_cast<std::size_t>(sequence.index)];
    const std::int64_t q_first =
        dense_q ? sequence.index * plan.shape.q_sequence_rows : sequence.q_first;
    const std::int64_t k_first =
        dense_k ? sequence.kv_index * plan.shape.kv_sequence_rows : sequence.k_first;
    const auto refuse = [&](std::string_view what, std::int64_t first, std::int64_t length,
                            std::int64_t here_first, std::int64_t here_length) {
      if (length == here_length && (length == 0 || first == here_first)) return;
      throw InvalidArgument(fmt::format(
          "plan: made for other {}: sequence {} had rows {} … {}, here {} … {}; make a "
          "new plan for these arguments",
          what, sequence.index, first, first + length, here_first, here_first + here_length));
    };
    refuse("query offsets", p.q_first, p.q_length, q_first, sequence.q_length);
    refuse("key offsets", p.k_first, p.k_length, k_first, sequence.k_length);
  }
}

}  // namespace

Tensor HostCopies::copy(const Tensor& tensor) {
  if (!tensor.present()) return tensor;
  const std::size_t bytes =
      static_cast<std::size_t>(span_of(tensor)) * static_cast<std::size_t>(size_of(tensor.dtype));
  std::vector<std::byte>& block = blocks_.emplace_back(bytes + 1);
  gpu_.context().copy(block.data(), tensor.data, bytes, stream_);
  gpu_.context().synchronize(stream_);
  Tensor host = tensor;
  host.data = block.data();
  return host;
}

Mask HostCopies::copy(Mask mask) {
  for (SequenceParameter Mask::*parameter :
       {&Mask::left, &Mask::right, &Mask::contextual, &Mask::targets, &Mask::target_group,
        &Mask::max_attention_length, &Mask::min_full_attention, &Mask::prefix, &Mask::local,
        &Mask::block}) {
    Tensor& values = (mask.*parameter).per_sequence;
    values = copy(values);
  }
  mask.intervals = copy(mask.intervals);
  return mask;
}

void check_values(Gpu& gpu, const AttentionArgs& args, const DevicePlan* plan,
                  runtime::StreamHandle stream) {
  if (!checks_are_on() || gpu.context().identity(stream).capture != 0) return;
  HostCopies copies(gpu, stream);
  AttentionArgs host = args;
  for (Sequences* side : {&host.q_sequences, &host.kv_sequences}) {
    side->offsets = copies.copy(side->offsets);
    side->used_lengths = copies.copy(side->used_lengths);
  }
  host.kv_map = copies.copy(host.kv_map);
  host.mask = copies.copy(host.mask);
  if (host.out_scale_kind == OutScale::per_sequence) host.out_scales = copies.copy(host.out_scales);
  const detail::Call call = detail::validate_inputs(host);
  if (plan != nullptr) require_same_rows(*plan, call);
}

// A plan of the device in the form of the CPU's, which the statistics are counted from.
PlanStatistics statistics(const DevicePlan& plan) {
  const kernels::PlanHeader header = copied_back(plan, plan.parts.header, 1)[0];
  const auto sequences = copied_back(plan, plan.parts.sequences, plan.shape.batch);
  const auto tiles = copied_back(plan, plan.parts.tiles, header.tiles);
  HostCopies copies(*plan.gpu, plan.stream);
  const Mask mask = copies.copy(plan.mask);

  detail::PlanData data;
  data.mask_intervals = mask.intervals;
  data.rules.tile_rows = plan.shape.tile_tokens;
  data.call.batch = plan.shape.batch;
  data.call.out_rows = plan.shape.out_rows;
  for (std::size_t b = 0; b < sequences.size(); ++b) {
    detail::SequenceView& sequence = data.call.sequences.emplace_back();
    sequence.index = static_cast<std::int64_t>(b);
    sequence.q_first = sequences[b].q_first;
    sequence.q_length = sequences[b].q_length;
    sequence.k_first = sequences[b].k_first;
    sequence.k_length = sequences[b].k_length;
    sequence.out_row = sequences[b].out_first;
  }
  detail::resolve_mask(mask, data.call);
  for (const kernels::TileWork& tile : tiles) {
    const std::int64_t keys = tile.k_end - tile.k_begin - (tile.gap_end - tile.gap_begin);
    data.tiles.push_back(
        {tile.sequence, tile.sequences, tile.q_offset, tile.rows, std::int64_t{tile.rows} * keys});
  }
  return detail::count_statistics(data, plan.shape.key_block);
}

}  // namespace jfa::gpu
