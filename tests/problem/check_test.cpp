// check must pass a good engine and find a bad one: the reference itself, rounded, is the good one,
// and each fault is put into it on purpose.
#include "jfa/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "api/scalar.hpp"
#include "jfa/jfa.hpp"

namespace jfa {
namespace {

using ::testing::HasSubstr;
using Index = std::array<std::int64_t, 4>;

// Row-major float64 memory for the results of the reference.
class Doubles {
 public:
  Tensor like(const Tensor& tensor) {
    if (!tensor.present()) return {};
    Tensor copy = tensor;
    copy.dtype = DType::float64;
    std::int64_t stride = 1;
    for (std::size_t axis = static_cast<std::size_t>(tensor.rank); axis-- > 0;) {
      copy.strides[axis] = stride;
      stride *= std::max<std::int64_t>(tensor.shape[axis], 1);
    }
    copy.data = blocks_.emplace_back(static_cast<std::size_t>(tensor.elements())).data();
    return copy;
  }

 private:
  std::vector<std::vector<double>> blocks_;
};

void round_into(const Tensor& from, const Tensor& to) {
  detail::for_each_index(
      to, [&](const Index& index) { detail::store_at(to, index, detail::real_at(from, index)); });
}

constexpr std::array<Tensor BackwardArgs::*, 7> kGradients = {&BackwardArgs::d_q,
                                                              &BackwardArgs::d_k,
                                                              &BackwardArgs::d_v,
                                                              &BackwardArgs::d_bias_dense,
                                                              &BackwardArgs::d_alibi_slopes,
                                                              &BackwardArgs::d_position_table,
                                                              &BackwardArgs::d_time_table};

void rounded_forward(const ForwardArgs& args) {
  Doubles memory;
  ForwardArgs exact = args;
  exact.out = memory.like(args.out);
  exact.lse = memory.like(args.lse);
  reference_forward(exact);
  round_into(exact.out, args.out);
  round_into(exact.lse, args.lse);
}

void rounded_backward(const BackwardArgs& args) {
  Doubles memory;
  BackwardArgs exact = args;
  exact.out = {};
  exact.lse = {};
  for (const auto gradient : kGradients) exact.*gradient = memory.like(args.*gradient);
  reference_backward(exact);
  for (const auto gradient : kGradients) round_into(exact.*gradient, args.*gradient);
}

const char* const kLine =
    "bwd bf16 d=16 h=2 mask=causal q=9,0,20 kv=12,3,7 offset0=2 slack=3 holes=1 headgap=2 "
    "bias=dense+alibi+position:n=9+time:buckets=9";

// The report on an engine that does `fault` after everything is right.
CheckReport report_on(const std::function<void(const ForwardArgs&)>& forward_fault,
                      const std::function<void(const BackwardArgs&)>& backward_fault,
                      const char* line = kLine) {
  return check(parse_problem(line), {[&](const ForwardArgs& args) {
                                       rounded_forward(args);
                                       if (forward_fault) forward_fault(args);
                                     },
                                     [&](const BackwardArgs& args) {
                                       rounded_backward(args);
                                       if (backward_fault) backward_fault(args);
                                     }});
}

void expect_found(const CheckReport& report, const std::string& text) {
  EXPECT_FALSE(report.passed());
  EXPECT_THAT(to_string(report), HasSubstr(text));
}

TEST(Check, PassesTheRoundedReference) {
  for (const char* line : {kLine, "bwd fp32 d=8 h=2 act=silu q=5,3 kv=broadcast:rows=4",
                           "bwd fp16 d=8 h=2 q=broadcast:rows=3 kv=5,0,9",
                           "fwd fp32 d=8 h=1 q=", "bwd bf16 d=8 h=1 q=0,0"}) {
    const CheckReport report = report_on({}, {}, line);
    EXPECT_TRUE(report.passed()) << line << '\n' << to_string(report);
  }
}

TEST(Check, NamesTheFirstBadCoordinate) {
  // Row 2 of sequence 2 is row 2 + (9+1) + (0+1) + 2 = 15 of the tensor.
  expect_found(report_on(
                   [](const ForwardArgs& a) {
                     detail::store_at(a.out, {15, 1, 5, 0}, 7.0);
                   },
                   {}),
               "first bad element: out sequence 2 row 2 head 1 column 5: got 7, expected ");
  expect_found(report_on(
                   [](const ForwardArgs& a) {
                     detail::store_at(a.lse, {1, 15, 0, 0}, 9.0);
                   },
                   {}),
               "lse sequence 2 row 2 head 1: got 9, expected ");
  expect_found(report_on({},
                         [](const BackwardArgs& a) {
                           detail::store_at(a.d_v, {3, 0, 1, 0}, 50.0);
                         }),
               "d_v sequence 0 row 1 head 0 column 1: got 50");
  expect_found(report_on({},
                         [](const BackwardArgs& a) {
                           detail::store_at(a.d_position_table, {1, 3, 0, 0}, 1e3);
                         }),
               "d_position_table index 1, 3: got 1000");
}

TEST(Check, NanIsNeverGood) {
  for (const auto gradient : kGradients) {
    const CheckReport report = report_on({}, [&](const BackwardArgs& a) {
      detail::store_at(a.*gradient, Index{(a.*gradient).rank == 3 ? 3 : 0, 0, 0, 0}, NAN);
    });
    expect_found(report, "got nan");
  }
}

TEST(Check, WhatNothingContributesToMustBeExactlyZero) {
  const auto write = [](std::int64_t row) {
    return [row](const ForwardArgs& a) { detail::store_at(a.out, {row, 0, 0, 0}, 1e-30); };
  };
  expect_found(report_on(write(0), {}), "slack or hole row 0");    // before the first sequence
  expect_found(report_on(write(11), {}), "slack or hole row 11");  // a hole
  // Causal with fewer keys than queries: the first rows see nothing.
  expect_found(report_on(write(13), {}), "sequence 2 row 0");
  expect_found(report_on(
                   [](const ForwardArgs& a) {
                     detail::store_at(a.lse, {0, 13, 0, 0}, -1e30);
                   },
                   {}),
               "lse sequence 2 row 0");
  expect_found(report_on({},
                         [](const BackwardArgs& a) {
                           detail::store_at(a.d_q, {13, 0, 0, 0}, 1e-30);
                         }),
               "d_q sequence 2 row 0");
}

TEST(Check, AnUnwrittenResultIsFound) {
  const CheckReport report = check(parse_problem("fwd fp32 d=4 h=1 q=3"),
                                   {[](const ForwardArgs&) {}, [](const BackwardArgs&) {}});
  expect_found(report, "out sequence 0 row 0 head 0 column 0: got nan");
}

// A small error everywhere passes the worst element but not the norm.
TEST(Check, TheNormCountsToo) {
  const auto scale_all = [](double factor) {
    return [factor](const ForwardArgs& a) {
      detail::for_each_index(a.out, [&](const Index& index) {
        detail::store_at(a.out, index, factor * detail::real_at(a.out, index));
      });
    };
  };
  const char* line = "fwd fp32 d=16 h=2 q=200,100";
  EXPECT_TRUE(report_on(scale_all(1 + 5e-7), {}, line).passed());
  expect_found(report_on(scale_all(1 + 1e-5), {}, line), "relative error");
  expect_found(report_on(scale_all(1.02), {}, "fwd bf16 d=16 h=2 q=200,100"), "out");
}

// One key too few, one too many, a wrong scale: the usual faults of kernels.
TEST(Check, UsualFaultsAreFoundInEveryType) {
  for (const std::string type : {"fp32", "bf16", "fp16"}) {
    const std::string line = "bwd " + type + " d=32 h=2 mask=causal q=40,17";
    const auto wrong = [&](const std::function<void(AttentionArgs&)>& change) {
      return check(parse_problem(line), {[&](const ForwardArgs& args) {
                                           ForwardArgs changed = args;
                                           change(changed);
                                           rounded_forward(changed);
                                         },
                                         [&](const BackwardArgs& args) {
                                           BackwardArgs changed = args;
                                           change(changed);
                                           rounded_backward(changed);
                                         }});
    };
    EXPECT_TRUE(wrong([](AttentionArgs&) {}).passed()) << line;
    EXPECT_FALSE(wrong([](AttentionArgs& a) { a.mask.kind = MaskKind::full; }).passed());
    EXPECT_FALSE(wrong([](AttentionArgs& a) {
                   a.mask.kind = MaskKind::window;
                   a.mask.right.value = 0;
                   a.mask.left.value = 30;  // rows 31 … 39 miss up to nine keys
                 }).passed());
    EXPECT_FALSE(wrong([](AttentionArgs& a) { a.scale = 0.18; }).passed());
    EXPECT_FALSE(wrong([](AttentionArgs& a) { a.out_scale = 1.03; }).passed());
  }
}

TEST(Check, WritesBesideAResultAreFound) {
  const CheckReport report = report_on(
      [](const ForwardArgs& a) {  // into the gap between two heads
        static_cast<std::uint16_t*>(a.out.data)[16] = 0;
      },
      {});
  EXPECT_FALSE(report.passed());
  EXPECT_THAT(to_string(report), HasSubstr("memory: "));
}

TEST(Check, TheCpuEngineAgrees) {
  const CheckReport report = check(parse_problem(kLine));
  EXPECT_TRUE(report.passed()) << to_string(report);
}

}  // namespace
}  // namespace jfa
