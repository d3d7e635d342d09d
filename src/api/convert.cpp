// convert: copies elements between floating types.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/argument.hpp"
#include "api/scalar.hpp"
#include "jfa/error.hpp"
#include "jfa/tensor.hpp"

namespace jfa {
namespace {

// Calls visit(offset in a, offset in b) for every element of two tensors of one shape.
template <typename Visit>
void for_each_pair(const Tensor& a, const Tensor& b, const Visit& visit) {
  const auto extent = [&](std::size_t axis) {
    return axis < static_cast<std::size_t>(a.rank) ? a.shape[axis] : 1;
  };
  const auto offset = [](const Tensor& tensor, const std::array<std::int64_t, 4>& index) {
    return detail::element_offset(tensor, index);
  };
  std::array<std::int64_t, 4> index{};
  for (index[0] = 0; index[0] < extent(0); ++index[0]) {
    for (index[1] = 0; index[1] < extent(1); ++index[1]) {
      for (index[2] = 0; index[2] < extent(2); ++index[2]) {
        for (index[3] = 0; index[3] < extent(3); ++index[3]) {
          visit(offset(a, index), offset(b, index));
        }
      }
    }
  }
}

}  // namespace

void convert(const Tensor& from, const Tensor& to) {
  constexpr std::array kFloating = {DType::float32, DType::float16, DType::bfloat16,
                                    DType::float64};
  detail::check_memory({"from", from});
  detail::check_memory({"to", to});
  detail::check_type({"from", from}, kFloating, "only floating types convert");
  detail::check_type({"to", to}, kFloating, "only floating types convert");
  if (from.rank != to.rank ||
      !std::equal(from.shape.begin(), from.shape.begin() + from.rank, to.shape.begin())) {
    throw InvalidArgument(fmt::format("to: shape {}; it must be that of `from`, {}",
                                      detail::shape_of(to), detail::shape_of(from)));
  }
  for_each_pair(from, to, [&](std::int64_t source, std::int64_t target) {
    detail::store_at(to, target, detail::real_at(from, source));
  });
}

}  // namespace jfa
