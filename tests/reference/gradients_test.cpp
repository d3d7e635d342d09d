// Gradients of the reference against central differences of its forward pass: every activation with
// every mask, without biases and with all of them.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "double_call.hpp"
#include "jfa/jfa.hpp"

namespace jfa {
namespace {

// Moves each element of `input` by ±h and compares with the gradient.
void expect_gradient(const testing::DoubleCall& call, const Tensor& input, const Tensor& gradient,
                     const std::string& what) {
  if (!input.present()) return;
  constexpr double kStep = 1e-5;
  auto* values = static_cast<double*>(input.data);
  const auto* expected = static_cast<const double*>(gradient.data);
  for (std::int64_t i = 0; i < input.elements(); ++i) {
    const double value = values[i];
    if (std::isnan(value)) {
      ASSERT_EQ(expected[i], 0) << what << " element " << i << " is not part of the problem";
      continue;
    }
    values[i] = value + kStep;
    const double above = call.objective();
    values[i] = value - kStep;
    const double below = call.objective();
    values[i] = value;
    const double difference = (above - below) / (2 * kStep);
    ASSERT_NEAR(difference, expected[i], 2e-8 * (1 + std::abs(expected[i])))
        << what << " element " << i;
  }
}

void expect_gradients(const std::string& line) {
  SCOPED_TRACE(line);
  const ProblemInstance instance(parse_problem(line));
  const testing::DoubleCall call(instance);
  const BackwardArgs& args = call.backward();
  reference_backward(args);
  expect_gradient(call, args.q, args.d_q, "d_q");
  expect_gradient(call, args.k, args.d_k, "d_k");
  expect_gradient(call, args.v, args.d_v, "d_v");
  expect_gradient(call, args.bias.dense, args.d_bias_dense, "d_bias_dense");
  expect_gradient(call, args.bias.alibi_slopes, args.d_alibi_slopes, "d_alibi_slopes");
  expect_gradient(call, args.bias.position_table, args.d_position_table, "d_position_table");
  expect_gradient(call, args.bias.time_table, args.d_time_table, "d_time_table");
}

const std::vector<std::string> kActivations = {
    "softmax", "silu", "gelu", "gelu_tanh", "relu", "relu2", "leaky_relu", "hardswish", "identity"};
const std::vector<std::string> kMasks = {"full",
                                         "causal",
                                         "window:left=1,right=1",
                                         "hstu:contextual=1,targets=2,group=2,window=2,full=1",
                                         "hstu:contextual=1/2,targets=0/1,causal=0",
                                         "prefix_local:prefix=1,local=2",
                                         "blocks:size=2",
                                         "intervals"};
const std::vector<std::string> kBiases = {"none", "dense+alibi+position:n=3+time:buckets=40",
                                          "dense:sequences=one,heads=one+alibi:sequences=each+"
                                          "position:n=2,heads=one+time:buckets=5,heads="
                                          "one"};

class Gradients
    : public ::testing::TestWithParam<std::tuple<std::string, std::string, std::string>> {};

TEST_P(Gradients, AreThoseOfTheForwardPass) {
  const auto& [activation, mask, bias] = GetParam();
  expect_gradients("bwd fp32 d=3 dv=2 h=2 hkv=1 q=4,0,2 kv=5,3,3 out_scale=0.7 magnitude=2 act=" +
                   activation + " mask=" + mask + " bias=" + bias);
}

std::string name_of_case(
    const ::testing::TestParamInfo<std::tuple<std::string, std::string, std::string>>& info) {
  const auto& [activation, mask, bias] = info.param;
  const auto number = [](const std::vector<std::string>& all, const std::string& one) {
    return std::to_string(std::find(all.begin(), all.end(), one) - all.begin());
  };
  const std::string kind = mask.substr(0, mask.find(':'));
  return activation + "_" + kind + number(kMasks, mask) + "_bias" + number(kBiases, bias);
}

INSTANTIATE_TEST_SUITE_P(All, Gradients,
                         ::testing::Combine(::testing::ValuesIn(kActivations),
                                            ::testing::ValuesIn(kMasks),
                                            ::testing::ValuesIn(kBiases)),
                         name_of_case);

TEST(GradientsOfLayouts, AreThoseOfTheForwardPass) {
  expect_gradients("bwd fp32 d=2 h=2 q=broadcast:rows=3 kv=2,0,4 bias=time:buckets=9");
  expect_gradients("bwd fp32 d=2 h=2 q=broadcast:rows=3 kv=broadcast:rows=2 batch=3 mask=causal");
  expect_gradients("bwd fp32 d=2 h=2 q=3,1,2 kv=broadcast:rows=4 bias=dense+time:buckets=9");
  expect_gradients("bwd fp32 d=2 h=2 q=dense:batch=2,rows=3 kv=3,1 bias=position:n=2+time");
  expect_gradients("bwd fp32 d=2 h=2 q=3,1 kv=dense:batch=2,rows=3 mask=hstu:targets=1");
  expect_gradients("bwd fp32 d=2 h=2 q=3,1,2 kv=4,2 kv_map=1,0,1 bias=dense act=silu");
  expect_gradients("bwd fp32 d=2 h=2 q=3,1,2,2 kv=4,2 kv_map=share:2");
  expect_gradients("bwd fp32 d=2 h=2 q=3,2 offset0=2 slack=1 holes=1/2 headgap=1 out_scales=token");
  expect_gradients("bwd fp32 d=2 h=2 q=3,2 fused expanded out_scales=sequence scale=-0.5 act=gelu");
  expect_gradients("bwd fp32 d=2 h=6 hkv=2 q=broadcast:rows=3 kv=2,3 holes=1/0 mask=causal");
}

}  // namespace
}  // namespace jfa
