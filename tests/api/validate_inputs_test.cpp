// Bad input of every argument that forward, backward and plans share: the right exception, with the
// argument's name and value, before anything is written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "api/call.hpp"
#include "jfa/jfa.hpp"

namespace jfa {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// "InvalidArgument: message" of a forward call on the problem after `change`.
std::string refusal(const std::string& line, const std::function<void(ForwardArgs&)>& change) {
  const ProblemInstance instance(parse_problem(line));
  ForwardArgs args = instance.forward();
  change(args);
  std::string result = "accepted";
  try {
    attention_forward(args);
  } catch (const InvalidArgument& error) {
    result = std::string("InvalidArgument: ") + error.what();
  } catch (const InvalidType& error) {
    result = std::string("InvalidType: ") + error.what();
  }
  if (result != "accepted") {
    const auto* out = static_cast<const float*>(instance.forward().out.data);
    EXPECT_TRUE(std::isnan(out[0])) << "written before the refusal: " << result;
  }
  return result;
}

const std::string kLine = "fwd fp32 d=4 h=4 hkv=2 q=3,2";

std::string bad(const std::function<void(ForwardArgs&)>& change) {
  return refusal(kLine, change);
}

TEST(ValidateInputs, UnchangedIsAccepted) {
  EXPECT_EQ(bad([](ForwardArgs&) {}), "accepted");
}

TEST(ValidateInputs, RowsTensors) {
  EXPECT_THAT(bad([](auto& a) { a.q = {}; }), HasSubstr("q: missing"));
  EXPECT_THAT(bad([](auto& a) { a.k = {}; }), HasSubstr("k: missing"));
  EXPECT_THAT(bad([](auto& a) { a.v = {}; }), HasSubstr("v: missing"));
  EXPECT_THAT(bad([](auto& a) { a.q.rank = 2; }), AllOf(HasSubstr("q: "), HasSubstr("rank 2")));
  EXPECT_THAT(bad([](auto& a) { a.q.rank = 7; }), AllOf(HasSubstr("q: "), HasSubstr("rank 7")));
  EXPECT_THAT(bad([](auto& a) { a.q.shape[1] = -1; }), HasSubstr("negative extent"));
  EXPECT_THAT(bad([](auto& a) { a.k.strides[0] = -8; }), HasSubstr("none may be negative"));
  EXPECT_THAT(bad([](auto& a) { a.v.strides[2] = 2; }), HasSubstr("v: the last stride"));
  EXPECT_THAT(bad([](auto& a) { a.v.strides[0] = std::int64_t{1} << 62; }), HasSubstr("2^62"));
  EXPECT_THAT(bad([](auto& a) { a.q.data = nullptr; }), HasSubstr("q: data is null"));
  EXPECT_THAT(bad([](auto& a) { a.q.data = static_cast<char*>(a.q.data) + 2; }),
              HasSubstr("not a multiple of the 4 bytes"));
  EXPECT_THAT(bad([](auto& a) { a.k.shape[2] = 3; }), HasSubstr("k: head dimension 3"));
  EXPECT_THAT(bad([](auto& a) { a.v.shape[0] = 4; }), HasSubstr("v: shape [4, 2, 4]"));
  EXPECT_THAT(bad([](auto& a) { a.v.shape[1] = 1; }), HasSubstr("v: shape [5, 1, 4]"));
  EXPECT_THAT(bad([](auto& a) { a.q.shape[1] = 3; }), HasSubstr("3 heads with 2 heads"));
  EXPECT_THAT(bad([](auto& a) { a.q.shape[1] = 0; }), HasSubstr("0 heads with 2 heads"));
  EXPECT_THAT(bad([](auto& a) { a.q.shape[2] = a.k.shape[2] = 0; }), HasSubstr("dimension 0"));
  EXPECT_THAT(bad([](auto& a) { a.v.shape[2] = 0; }), HasSubstr("v: head dimension 0"));
}

TEST(ValidateInputs, Types) {
  EXPECT_THAT(
      bad([](auto& a) { a.q.dtype = DType::int32; }),
      AllOf(HasSubstr("InvalidType: q: type int32"), HasSubstr("float32, bfloat16, float16")));
  EXPECT_THAT(bad([](auto& a) { a.q.dtype = a.k.dtype = a.v.dtype = DType::float64; }),
              HasSubstr("reference_forward"));
  EXPECT_THAT(bad([](auto& a) { a.k.dtype = DType::bfloat16; }),
              AllOf(HasSubstr("InvalidType: k: "), HasSubstr("one type")));
  EXPECT_THAT(bad([](auto& a) { a.q_sequences.offsets.dtype = DType::float32; }),
              HasSubstr("InvalidType: q_sequences.offsets"));
}

TEST(ValidateInputs, Layouts) {
  EXPECT_THAT(bad([](auto& a) { a.q_sequences.layout = static_cast<Layout>(9); }),
              HasSubstr("q_sequences.layout: 9"));
  EXPECT_THAT(bad([](auto& a) { a.q_sequences.layout = Layout::dense; }),
              AllOf(HasSubstr("rank 3"), HasSubstr("[batch, rows, Hq, D]")));
  EXPECT_THAT(bad([](auto& a) { a.kv_sequences.layout = Layout::broadcast; }),
              HasSubstr("kv_sequences.offsets: present"));
  EXPECT_THAT(bad([](auto& a) { a.q_sequences.offsets = {}; }),
              HasSubstr("q_sequences.offsets: missing"));
  EXPECT_THAT(bad([](auto& a) { a.kv_sequences.offsets = {}; }),
              HasSubstr("kv_sequences.offsets: missing"));
}

TEST(ValidateInputs, T67_Offsets) {
  std::vector<std::int32_t> offsets = {0, 3, 5};
  const auto with = [&](std::vector<std::int32_t> values) {
    offsets = std::move(values);
    return bad([&](auto& a) {
      a.q_sequences.offsets =
          contiguous(offsets.data(), DType::int32, {static_cast<std::int64_t>(offsets.size())});
    });
  };
  EXPECT_EQ(with({0, 3, 5}), "accepted");
  EXPECT_EQ(with({1, 1, 1}), "accepted");
  EXPECT_THAT(with({-1, 3, 5}), HasSubstr("q_sequences.offsets[0] = -1 is negative"));
  EXPECT_THAT(with({0, 4, 3}), HasSubstr("offsets[2] = 3 is smaller than offsets[1] = 4"));
  EXPECT_THAT(with({0, 3, 6}), HasSubstr("offsets[2] = 6 exceeds the 5 rows"));
  EXPECT_THAT(with({0, INT32_MAX, INT32_MAX}), HasSubstr("exceeds the 5 rows"));
  EXPECT_THAT(with({0, 3}), HasSubstr("2 key sequences for 1 query sequences"));
  EXPECT_THAT(with({}), HasSubstr("at least one"));
  EXPECT_THAT(bad([&](auto& a) { a.q_sequences.offsets.rank = 2; }),
              HasSubstr("q_sequences.offsets: shape"));
}

TEST(ValidateInputs, UsedLengths) {
  std::vector<std::int64_t> used = {2, 1};
  const auto with = [&](std::vector<std::int64_t> values) {
    used = std::move(values);
    return bad([&](auto& a) {
      a.kv_sequences.used_lengths =
          contiguous(used.data(), DType::int64, {static_cast<std::int64_t>(used.size())});
    });
  };
  EXPECT_EQ(with({0, 900}), "accepted");  // clamped to the sequence
  EXPECT_THAT(with({2, -1}), HasSubstr("kv_sequences.used_lengths[1] = -1 is negative"));
  EXPECT_THAT(with({2}), HasSubstr("sequences = 2"));
}

TEST(ValidateInputs, KeyMap) {
  std::vector<std::int32_t> map = {0, 1};
  const auto with = [&](std::vector<std::int32_t> values, const std::string& line = kLine) {
    map = std::move(values);
    return refusal(line, [&](auto& a) {
      a.kv_map = contiguous(map.data(), DType::int32, {static_cast<std::int64_t>(map.size())});
    });
  };
  EXPECT_EQ(with({1, 1}), "accepted");
  EXPECT_THAT(with({0, 2}), HasSubstr("kv_map[1] = 2 is outside the 2 key sequences"));
  EXPECT_THAT(with({-1, 0}), HasSubstr("kv_map[0] = -1"));
  EXPECT_THAT(with({0}), HasSubstr("kv_map: shape [1]"));
  EXPECT_THAT(with({0, 0}, "fwd fp32 d=4 h=1 q=3,2 kv=broadcast:rows=2"),
              HasSubstr("leave it out"));
}

TEST(ValidateInputs, Batch) {
  EXPECT_THAT(bad([](auto& a) { a.batch = 3; }), HasSubstr("batch: 3, but"));
  EXPECT_THAT(bad([](auto& a) { a.batch = -2; }), HasSubstr("batch: -2"));
  EXPECT_EQ(bad([](auto& a) { a.batch = 2; }), "accepted");
  const std::string both = "fwd fp32 d=4 h=1 q=broadcast:rows=2 kv=broadcast:rows=2 batch=3";
  EXPECT_THAT(refusal(both, [](auto& a) { a.batch = -1; }), HasSubstr("pass the number"));
  EXPECT_THAT(refusal(both, [](auto& a) { a.batch = std::int64_t{1} << 40; }), HasSubstr("2^31"));
}

TEST(ValidateInputs, Scalars) {
  EXPECT_THAT(bad([](auto& a) { a.scale = NAN; }), HasSubstr("scale: nan"));
  EXPECT_THAT(bad([](auto& a) { a.scale = INFINITY; }), HasSubstr("scale: inf"));
  EXPECT_THAT(bad([](auto& a) { a.out_scale = NAN; }), HasSubstr("out_scale: nan"));
  EXPECT_THAT(bad([](auto& a) { a.leaky_slope = NAN; }), HasSubstr("leaky_slope: nan"));
  EXPECT_THAT(bad([](auto& a) { a.activation = static_cast<Activation>(99); }),
              HasSubstr("activation: 99"));
}

TEST(ValidateInputs, OutScales) {
  std::vector<float> scales = {1, 2, 3, 4, 5};
  const auto tensor = [&](std::int64_t n) {
    return contiguous(scales.data(), DType::float32, {n});
  };
  EXPECT_THAT(bad([&](auto& a) { a.out_scales = tensor(2); }), HasSubstr("kind is uniform"));
  EXPECT_THAT(bad([&](auto& a) { a.out_scale_kind = OutScale::per_token; }),
              HasSubstr("out_scales: missing"));
  EXPECT_THAT(bad([&](auto& a) { a.out_scale_kind = static_cast<OutScale>(7); }),
              HasSubstr("out_scale_kind: 7"));
  const auto with = [&](OutScale kind, std::int64_t n) {
    return bad([&](auto& a) {
      a.out_scale_kind = kind;
      a.out_scales = tensor(n);
    });
  };
  EXPECT_EQ(with(OutScale::per_sequence, 2), "accepted");
  EXPECT_EQ(with(OutScale::per_token, 5), "accepted");
  EXPECT_THAT(with(OutScale::per_sequence, 5), HasSubstr("batch = 2"));
  EXPECT_THAT(with(OutScale::per_token, 2), HasSubstr("query rows of out = 5"));
  scales[1] = NAN;
  EXPECT_THAT(with(OutScale::per_sequence, 2), HasSubstr("out_scales[1]: nan"));
}

TEST(ValidateInputs, Masks) {
  EXPECT_THAT(bad([](auto& a) { a.mask.kind = static_cast<MaskKind>(42); }),
              HasSubstr("mask.kind: 42"));
  EXPECT_THAT(bad([](auto& a) { a.mask.alignment = static_cast<Alignment>(42); }),
              HasSubstr("mask.alignment: 42"));
  const auto with = [](MaskKind kind, SequenceParameter Mask::*parameter, std::int64_t value) {
    return bad([=](auto& a) {
      a.mask.kind = kind;
      (a.mask.*parameter).value = value;
    });
  };
  EXPECT_THAT(with(MaskKind::causal, &Mask::left, 5),
              AllOf(HasSubstr("mask.left: set, but the mask is causal"), HasSubstr("window")));
  EXPECT_THAT(with(MaskKind::full, &Mask::targets, 5), HasSubstr("mask.targets"));
  EXPECT_THAT(with(MaskKind::hstu, &Mask::targets, -1), HasSubstr("mask.targets = -1"));
  EXPECT_THAT(with(MaskKind::hstu, &Mask::contextual, -1), HasSubstr("mask.contextual = -1"));
  EXPECT_THAT(with(MaskKind::hstu, &Mask::target_group, 0), HasSubstr("at least 1"));
  EXPECT_THAT(with(MaskKind::hstu, &Mask::max_attention_length, -1), HasSubstr("at least 0"));
  EXPECT_THAT(with(MaskKind::hstu, &Mask::min_full_attention, -1), HasSubstr("at least 0"));
  EXPECT_THAT(with(MaskKind::prefix_local, &Mask::prefix, -1), HasSubstr("mask.prefix = -1"));
  EXPECT_THAT(with(MaskKind::prefix_local, &Mask::local, -1), HasSubstr("mask.local = -1"));
  EXPECT_THAT(with(MaskKind::blocks, &Mask::block, 0), HasSubstr("mask.block = 0"));
  EXPECT_EQ(with(MaskKind::window, &Mask::left, INT64_MAX), "accepted");
  EXPECT_EQ(with(MaskKind::window, &Mask::right, INT64_MIN), "accepted");
  EXPECT_EQ(with(MaskKind::blocks, &Mask::block, INT64_MAX), "accepted");

  std::vector<std::int32_t> values = {1, -3};
  EXPECT_THAT(bad([&](auto& a) {
                a.mask.kind = MaskKind::hstu;
                a.mask.targets.per_sequence = contiguous(values.data(), DType::int32, {2});
              }),
              HasSubstr("mask.targets[1] = -3"));
  EXPECT_THAT(bad([&](auto& a) {
                a.mask.kind = MaskKind::hstu;
                a.mask.targets.per_sequence = contiguous(values.data(), DType::int32, {1});
              }),
              HasSubstr("mask.targets: shape [1]"));
}

TEST(ValidateInputs, ExplicitIntervals) {
  std::vector<std::int32_t> bounds(30);
  const auto with = [&](MaskKind kind, std::int64_t rows, std::int64_t columns, DType dtype) {
    return bad([&](auto& a) {
      a.mask.kind = kind;
      a.mask.intervals = contiguous(bounds.data(), dtype, {rows, columns});
    });
  };
  EXPECT_EQ(with(MaskKind::intervals, 5, 2, DType::int32), "accepted");
  EXPECT_EQ(with(MaskKind::intervals, 5, 4, DType::int32), "accepted");
  EXPECT_THAT(with(MaskKind::intervals, 5, 3, DType::int32), HasSubstr("2 or 4"));
  EXPECT_THAT(with(MaskKind::intervals, 4, 2, DType::int32), HasSubstr("query rows of out = 5"));
  EXPECT_THAT(with(MaskKind::intervals, 5, 2, DType::int64), HasSubstr("InvalidType"));
  EXPECT_THAT(with(MaskKind::causal, 5, 2, DType::int32), HasSubstr("set mask.kind to intervals"));
  EXPECT_THAT(bad([](auto& a) { a.mask.kind = MaskKind::intervals; }),
              HasSubstr("mask.intervals: missing"));
}

TEST(ValidateInputs, Biases) {
  std::vector<float> memory(400);
  std::vector<std::int64_t> times(5);
  const auto floats = [&](std::initializer_list<std::int64_t> shape) {
    return contiguous(memory.data(), DType::float32, shape);
  };
  const Tensor stamps = contiguous(times.data(), DType::int64, {5});
  EXPECT_EQ(bad([&](auto& a) { a.bias.dense = floats({1, 4, 3, 5}); }), "accepted");
  EXPECT_THAT(bad([&](auto& a) {
                a.bias.dense = floats({2, 4, 2, 3});
              }),
              HasSubstr("longest q ≥ 3"));
  EXPECT_THAT(bad([&](auto& a) { a.bias.dense = floats({3, 1, 3, 3}); }), HasSubstr("1 or 2"));
  EXPECT_THAT(bad([&](auto& a) { a.bias.dense = floats({3, 3}); }), HasSubstr("bias.dense: shape"));
  EXPECT_THAT(bad([&](auto& a) {
                a.bias.dense = floats({1, 1, 3, 3});
                a.bias.dense.dtype = DType::float16;
              }),
              HasSubstr("InvalidType: bias.dense"));
  EXPECT_THAT(bad([&](auto& a) { a.bias.alibi_slopes = floats({3}); }), HasSubstr("Hq = 4"));
  EXPECT_THAT(bad([&](auto& a) { a.bias.alibi_slopes = floats({3, 4}); }), HasSubstr("batch = 2"));
  EXPECT_THAT(bad([&](auto& a) { a.bias.position_table = floats({4, 6}); }), HasSubstr("2n − 1"));
  EXPECT_THAT(bad([&](auto& a) { a.bias.position_table = floats({3, 7}); }), HasSubstr("1 or 4"));
  const auto time = [&](const std::function<void(ForwardArgs&)>& change) {
    return bad([&](auto& a) {
      a.bias.time_table = floats({4, 8});
      a.bias.q_timestamps = stamps;
      a.bias.kv_timestamps = stamps;
      change(a);
    });
  };
  EXPECT_EQ(time([](auto&) {}), "accepted");
  EXPECT_THAT(time([](auto& a) { a.bias.time_table = {}; }), HasSubstr("without bias.time_table"));
  EXPECT_THAT(time([](auto& a) { a.bias.q_timestamps = {}; }),
              HasSubstr("bias.q_timestamps: missing"));
  EXPECT_THAT(time([](auto& a) { a.bias.kv_timestamps.shape[0] = 4; }), HasSubstr("key rows = 5"));
  EXPECT_THAT(time([](auto& a) { a.bias.q_timestamps.dtype = DType::float64; }),
              HasSubstr("InvalidType: bias.q_timestamps"));
  EXPECT_THAT(time([](auto& a) { a.bias.time_scale = 0; }), HasSubstr("bias.time_scale: 0"));
  EXPECT_THAT(time([](auto& a) { a.bias.time_scale = NAN; }), HasSubstr("bias.time_scale: nan"));
  EXPECT_THAT(time([&](auto& a) { a.bias.time_table = floats({4, 0}); }), HasSubstr("buckets ≥ 1"));
}

}  // namespace
}  // namespace jfa
