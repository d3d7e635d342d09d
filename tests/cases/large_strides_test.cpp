// T22, T23, T27, T28, T30, T34, T35: row offsets beyond 2^31 elements. The rows lie gigabytes apart
// in memory that is reserved but, but for a few pages, never touched.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "api/scalar.hpp"
#include "jfa/jfa.hpp"

namespace jfa {
namespace {

constexpr std::int64_t kRowStride = (std::int64_t{1} << 30) + 64;  // elements: row 2 is beyond 2^31

// A copy of [rows, heads, dim] with kRowStride elements between rows.
class SparseCopy {
 public:
  explicit SparseCopy(const Tensor& tensor) : copy_(tensor) {
    bytes_ = static_cast<std::size_t>(tensor.shape[0] * kRowStride * size_of(tensor.dtype));
    copy_.data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy_.data == MAP_FAILED) {
      copy_.data = nullptr;
      return;
    }
    copy_.strides[0] = kRowStride;
    detail::for_each_index(tensor, [&](const std::array<std::int64_t, 4>& index) {
      detail::store_at(copy_, index, detail::real_at(tensor, index));
    });
  }
  SparseCopy(const SparseCopy&) = delete;
  SparseCopy& operator=(const SparseCopy&) = delete;
  ~SparseCopy() {
    if (copy_.data != nullptr) munmap(copy_.data, bytes_);
  }

  const Tensor& tensor() const { return copy_; }
  bool reserved() const { return copy_.data != nullptr; }

 private:
  Tensor copy_;
  std::size_t bytes_ = 0;
};

void expect_equal(const Tensor& got, const Tensor& expected, const char* name) {
  detail::for_each_index(expected, [&](const std::array<std::int64_t, 4>& index) {
    ASSERT_EQ(detail::real_at(got, index), detail::real_at(expected, index))
        << name << " row " << index[0] << " head " << index[1] << " column " << index[2];
  });
}

TEST(LargeStrides, T22_RowsBeyond2To31ElementsAreAsAnyOther) {
  ProblemInstance instance(
      parse_problem("bwd bf16 d=16 h=2 mask=causal q=3,2 offset0=1 slack=1 deterministic"));
  attention_forward(instance.forward());
  attention_backward(instance.backward());

  const BackwardArgs& packed = instance.backward();
  const SparseCopy q(packed.q), k(packed.k), v(packed.v), out(packed.out), d_out(packed.d_out);
  const SparseCopy d_q(packed.d_q), d_k(packed.d_k), d_v(packed.d_v);
  for (const SparseCopy* copy : {&q, &k, &v, &out, &d_out, &d_q, &d_k, &d_v}) {
    if (!copy->reserved())
      GTEST_SKIP() << "the machine does not let us reserve 15 GiB of addresses";
  }
  ForwardArgs forward = instance.forward();
  forward.q = q.tensor();
  forward.k = k.tensor();
  forward.v = v.tensor();
  forward.out = out.tensor();
  attention_forward(forward);
  BackwardArgs backward = packed;
  static_cast<AttentionArgs&>(backward) = forward;
  backward.out = out.tensor();
  backward.d_out = d_out.tensor();
  backward.d_q = d_q.tensor();
  backward.d_k = d_k.tensor();
  backward.d_v = d_v.tensor();
  attention_backward(backward);
  expect_equal(out.tensor(), packed.out, "out");
  expect_equal(d_q.tensor(), packed.d_q, "d_q");
  expect_equal(d_k.tensor(), packed.d_k, "d_k");
  expect_equal(d_v.tensor(), packed.d_v, "d_v");
}

// T26: Lq · Lk · H is above 2^31. With one visible key a row, out is v.
TEST(LargeStrides, T26_MoreThan2To31Pairs) {
  constexpr std::int64_t kLength = 50'000;
  ProblemInstance instance(parse_problem("fwd fp32 d=1 h=1 mask=window:left=0,right=0 q=50000"));
  attention_forward(instance.forward());
  const auto* out = static_cast<const float*>(instance.forward().out.data);
  const auto* v = static_cast<const float*>(instance.forward().v.data);
  for (std::int64_t i = 0; i < kLength; ++i) ASSERT_FLOAT_EQ(out[i], v[i]) << "row " << i;
  const PlanStatistics statistics = make_plan(instance.forward()).statistics();
  EXPECT_EQ(statistics.visible_pairs, static_cast<double>(kLength));
  EXPECT_EQ(statistics.padded_pairs, static_cast<double>(kLength) * kLength);
}

}  // namespace
}  // namespace jfa
