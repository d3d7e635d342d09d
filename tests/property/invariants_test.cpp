// What must hold between runs of an engine, bit by bit: results do not depend on how tensors lie in
// memory, on the number of threads, on other sequences, on their order, or on empty ones between.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "api/call.hpp"
#include "api/scalar.hpp"
#include "jfa/jfa.hpp"
#include "random_problem.hpp"

namespace jfa {
namespace {

constexpr std::uint64_t kProblems = 150;

using detail::Call;
using detail::SequenceView;
using Index = std::array<std::int64_t, 4>;

void run(ProblemInstance& instance, int threads = 2) {
  Execution execution;
  execution.threads = threads;
  instance.poison();
  attention_forward(instance.forward(), execution);
  if (instance.problem().direction == Direction::backward) {
    attention_backward(instance.backward(), execution);
  }
}

// Bits of a float16, bfloat16 or float32 element.
std::uint32_t bits_at(const Tensor& tensor, const Index& index) {
  const std::int64_t size = size_of(tensor.dtype);
  std::uint32_t bits = 0;
  std::memcpy(&bits,
              static_cast<const char*>(tensor.data) + detail::element_offset(tensor, index) * size,
              static_cast<std::size_t>(size));
  return bits;
}

std::vector<std::uint32_t> bits_of(const Tensor& tensor) {
  std::vector<std::uint32_t> bits;
  detail::for_each_index(tensor,
                         [&](const Index& index) { bits.push_back(bits_at(tensor, index)); });
  return bits;
}

std::vector<std::vector<std::uint32_t>> all_results(const ProblemInstance& instance) {
  std::vector<std::vector<std::uint32_t>> results = {bits_of(instance.forward().out),
                                                     bits_of(instance.forward().lse)};
  if (instance.problem().direction == Direction::forward) return results;
  const BackwardArgs& args = instance.backward();
  for (const Tensor* tensor : {&args.d_q, &args.d_k, &args.d_v, &args.d_bias_dense,
                               &args.d_alibi_slopes, &args.d_position_table, &args.d_time_table}) {
    results.push_back(bits_of(*tensor));
  }
  return results;
}

// Results of one sequence in jagged tensors.
std::vector<std::uint32_t> sequence_results(const ProblemInstance& instance,
                                            const SequenceView& sequence) {
  std::vector<std::uint32_t> bits;
  const auto add_rows = [&](const Tensor& tensor, std::int64_t first, std::int64_t length) {
    for (std::int64_t row = first; tensor.present() && row < first + length; ++row) {
      for (std::int64_t h = 0; h < tensor.shape[1]; ++h) {
        for (std::int64_t d = 0; d < tensor.shape[2]; ++d) {
          bits.push_back(bits_at(tensor, {row, h, d, 0}));
        }
      }
    }
  };
  const ForwardArgs& forward = instance.forward();
  add_rows(forward.out, sequence.q_first, sequence.q_length);
  for (std::int64_t h = 0; forward.lse.present() && h < forward.lse.shape[0]; ++h) {
    for (std::int64_t i = 0; i < sequence.q_length; ++i) {
      bits.push_back(bits_at(forward.lse, {h, sequence.out_row + i, 0, 0}));
    }
  }
  if (instance.problem().direction == Direction::forward) return bits;
  const BackwardArgs& args = instance.backward();
  add_rows(args.d_q, sequence.q_first, sequence.q_length);
  add_rows(args.d_k, sequence.k_first, sequence.k_length);
  add_rows(args.d_v, sequence.k_first, sequence.k_length);
  return bits;
}

// A drawn problem where each sequence has its own rows on both sides, and no bias of its own.
Problem jagged_problem(std::uint64_t number) {
  Problem p = testing::random_problem(number);
  for (std::uint64_t next = number + 1'000'000;
       p.q.layout != Layout::jagged || p.q.lengths.text.empty(); ++next) {
    p = testing::random_problem(next);
  }
  const auto batch = generate_lengths(p.q.lengths).size();
  const bool own_keys = p.kv && p.kv->layout == Layout::jagged && p.kv_map.empty() &&
                        p.kv_share == 0 && generate_lengths(p.kv->lengths).size() == batch;
  if (!own_keys) p.kv.reset();
  p.kv_map.clear();
  p.kv_share = 0;
  p.batch = -1;
  p.bias.dense = false;
  p.bias.time = 0;
  p.bias.alibi_each_sequence = false;
  if (p.mask.kind == MaskKind::intervals) p.mask = {};
  p.memory.expanded_gradient = false;
  p.deterministic = true;
  return p;
}

TEST(Invariants, T57_StridesAddressesAndIntegerTypesDoNotMatter) {
  for (std::uint64_t number = 0; number < kProblems; ++number) {
    Problem strided = testing::random_problem(number);
    strided.deterministic = true;
    Problem packed = strided;
    packed.memory.head_gap = 0;
    packed.memory.row_gap = 0;
    packed.memory.misalign = 0;
    packed.memory.fused = false;
    packed.memory.int64_offsets = !strided.memory.int64_offsets;
    ProblemInstance first(strided);
    ProblemInstance second(packed);
    run(first);
    run(second);
    ASSERT_EQ(all_results(first), all_results(second)) << to_string(strided);
  }
}

TEST(Invariants, T76_ThreadsAndRepetitionDoNotMatter) {
  for (std::uint64_t number = 0; number < kProblems; ++number) {
    Problem problem = testing::random_problem(number);
    problem.deterministic = true;
    ProblemInstance instance(problem);
    run(instance, 1);
    const auto expected = all_results(instance);
    for (const int threads : {1, 2, 5}) {
      run(instance, threads);
      ASSERT_EQ(all_results(instance), expected) << to_string(problem) << " threads " << threads;
    }
  }
}

// Changes the sign of every value in rows of a jagged tensor.
void negate_rows(const Tensor& tensor, std::int64_t first, std::int64_t length) {
  for (std::int64_t row = first; tensor.present() && row < first + length; ++row) {
    for (std::int64_t h = 0; h < tensor.shape[1]; ++h) {
      for (std::int64_t d = 0; d < tensor.shape[2]; ++d) {
        detail::store_at(tensor, {row, h, d, 0}, -detail::real_at(tensor, {row, h, d, 0}));
      }
    }
  }
}

TEST(Invariants, T69_ASequenceDoesNotLeakIntoAnother) {
  for (std::uint64_t number = 0; number < kProblems; ++number) {
    const Problem problem = jagged_problem(number);
    ProblemInstance instance(problem);
    const Call call = detail::validate_forward(instance.forward());
    run(instance);
    std::vector<std::vector<std::uint32_t>> before;
    for (const SequenceView& s : call.sequences) before.push_back(sequence_results(instance, s));

    const SequenceView& changed = call.sequences[number % call.sequences.size()];
    const ForwardArgs& args = instance.forward();
    negate_rows(args.q, changed.q_first, changed.q_length);
    negate_rows(args.k, changed.k_first, changed.k_length);
    negate_rows(args.v, changed.k_first, changed.k_length);
    if (problem.direction == Direction::backward) {
      negate_rows(instance.backward().d_out, changed.q_first, changed.q_length);
    }
    run(instance);
    for (const SequenceView& s : call.sequences) {
      if (s.index == changed.index) continue;
      ASSERT_EQ(sequence_results(instance, s), before[static_cast<std::size_t>(s.index)])
          << to_string(problem) << "\nsequence " << changed.index << " changed, sequence "
          << s.index << " too";
    }
  }
}

// --- rearranged batches ------------------------------------------------------------------------

// New place b holds old sequence order[b], or an empty one where that is −1.
using Order = std::vector<std::int64_t>;

std::vector<std::int64_t> rearranged(const std::vector<std::int64_t>& old, const Order& order) {
  std::vector<std::int64_t> result;
  for (const std::int64_t b : order) {
    result.push_back(b < 0 ? 0 : old[static_cast<std::size_t>(b)]);
  }
  return result;
}

void rearrange(SequenceValues& values, const Order& order) {
  if (values.size() == 1) return;
  SequenceValues result;
  for (const std::int64_t b : order) {
    result.push_back(
        values[static_cast<std::size_t>(std::max<std::int64_t>(b, 0)) % values.size()]);
  }
  values = result;
}

Problem rearranged(Problem p, const Order& order) {
  p.q.lengths.text = testing::list_text(rearranged(generate_lengths(p.q.lengths), order));
  if (p.kv)
    p.kv->lengths.text = testing::list_text(rearranged(generate_lengths(p.kv->lengths), order));
  for (SequenceValues MaskSpec::*values :
       {&MaskSpec::left, &MaskSpec::right, &MaskSpec::contextual, &MaskSpec::targets,
        &MaskSpec::target_group, &MaskSpec::max_attention_length, &MaskSpec::min_full_attention,
        &MaskSpec::prefix, &MaskSpec::local, &MaskSpec::block}) {
    rearrange(p.mask.*values, order);
  }
  return p;
}

void copy_rows(const Tensor& from, std::int64_t from_row, const Tensor& to, std::int64_t to_row,
               std::int64_t length) {
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t h = 0; h < from.shape[1]; ++h) {
      for (std::int64_t d = 0; d < from.shape[2]; ++d) {
        detail::store_at(to, {to_row + i, h, d, 0}, detail::real_at(from, {from_row + i, h, d, 0}));
      }
    }
  }
}

// Gives the sequences of `to` the values that they have in `from`.
void copy_values(const ProblemInstance& from, const ProblemInstance& to, const Order& order) {
  const ForwardArgs& a = from.forward();
  const ForwardArgs& b = to.forward();
  const Call old_call = detail::validate_forward(a);
  const Call new_call = detail::validate_forward(b);
  for (const SequenceView& s : new_call.sequences) {
    const std::int64_t old_index = order[static_cast<std::size_t>(s.index)];
    if (old_index < 0) continue;
    const SequenceView& old = old_call.sequences[static_cast<std::size_t>(old_index)];
    copy_rows(a.q, old.q_first, b.q, s.q_first, s.q_length);
    copy_rows(a.k, old.k_first, b.k, s.k_first, s.k_length);
    copy_rows(a.v, old.k_first, b.v, s.k_first, s.k_length);
    const bool per_token = a.out_scale_kind == OutScale::per_token;
    if (a.out_scales.present()) {
      auto* old_scales = static_cast<float*>(a.out_scales.data);
      auto* new_scales = static_cast<float*>(b.out_scales.data);
      for (std::int64_t i = 0; i < (per_token ? s.q_length : 1); ++i) {
        new_scales[(per_token ? s.out_row : s.index) + i] =
            old_scales[(per_token ? old.out_row : old.index) + i];
      }
    }
    if (from.problem().direction == Direction::forward) continue;
    copy_rows(from.backward().d_out, old.q_first, to.backward().d_out, s.q_first, s.q_length);
  }
}

void expect_unmoved(const Problem& problem, const Order& order) {
  ProblemInstance first(problem);
  ProblemInstance second(rearranged(problem, order));
  copy_values(first, second, order);
  run(first);
  run(second);
  const Call old_call = detail::validate_forward(first.forward());
  const Call new_call = detail::validate_forward(second.forward());
  for (const SequenceView& s : new_call.sequences) {
    const std::int64_t old_index = order[static_cast<std::size_t>(s.index)];
    if (old_index < 0) continue;
    const SequenceView& old = old_call.sequences[static_cast<std::size_t>(old_index)];
    ASSERT_EQ(sequence_results(second, s), sequence_results(first, old))
        << to_string(problem) << "\nrearranged: " << to_string(second.problem()) << "\nsequence "
        << old_index << " at place " << s.index;
  }
}

Order identity_order(const Problem& problem) {
  Order order;
  const auto batch = static_cast<std::int64_t>(generate_lengths(problem.q.lengths).size());
  for (std::int64_t b = 0; b < batch; ++b) order.push_back(b);
  return order;
}

TEST(Invariants, OrderOfSequencesDoesNotMatter) {
  std::mt19937_64 random(7);
  for (std::uint64_t number = 0; number < kProblems; ++number) {
    const Problem problem = jagged_problem(number);
    Order order = identity_order(problem);
    std::shuffle(order.begin(), order.end(), random);
    expect_unmoved(problem, order);
    if (HasFatalFailure()) return;
  }
}

TEST(Invariants, T92_EmptySequencesAnywhereDoNotMatter) {
  std::mt19937_64 random(8);
  for (std::uint64_t number = 0; number < kProblems; ++number) {
    const Problem problem = jagged_problem(number);
    Order order = identity_order(problem);
    for (int empties = 0; empties < 3; ++empties) {
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(random() % (order.size() + 1)), -1);
    }
    order.insert(order.end(), 20, -1);  // offsets padded to a fixed size by repeating the last one
    expect_unmoved(problem, order);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace jfa
