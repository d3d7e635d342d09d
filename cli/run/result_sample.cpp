#include "run/result_sample.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "run/runner.hpp"

namespace jfa::tool {

namespace {

// NaN stays once it is there.
double worse_of(double a, double b) {
  return std::isnan(a) || a >= b ? a : b;
}

}  // namespace

void ResultSample::take(const HistoryBatch& batch, std::int64_t first) {
  const BackwardArgs args = batch.backward();
  const std::array<Tensor, kTensors.size()> tensors = {batch.forward().out, args.d_q, args.d_k,
                                                       args.d_v};
  const std::int64_t end = std::min(users_, first + batch.users());
  for (std::int64_t user = first; user < end; ++user) {
    UserResults& results = taken_[user];
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Tensor rows = batch.rows_of(tensors[i], user - first);
      results[i].resize(static_cast<std::size_t>(rows.elements()));
      convert(rows, contiguous(results[i].data(), DType::float64,
                               {rows.shape[0], rows.shape[1], rows.shape[2]}));
    }
  }
}

std::vector<ResultError> ResultSample::errors_of(const ResultSample& results) const {
  constexpr std::size_t kOut = 0;
  std::array<double, kTensors.size()> errors{};  // ‖x − r‖²
  std::array<double, kTensors.size()> norms{};   // ‖r‖²
  std::array<double, kTensors.size()> worst{};
  double gradients = 0;  // ‖r‖² over all gradients
  for (const auto& [user, truth] : taken_) {
    const auto other = results.taken_.find(user);
    if (other == results.taken_.end()) continue;
    for (std::size_t i = 0; i < kTensors.size(); ++i) {
      for (std::size_t element = 0; element < truth[i].size(); ++element) {
        const double distance = std::abs(other->second[i][element] - truth[i][element]);
        const double square = truth[i][element] * truth[i][element];
        errors[i] += distance * distance;
        norms[i] += square;
        worst[i] = worse_of(worst[i], distance);
        if (i != kOut) gradients += square;
      }
    }
  }
  std::vector<ResultError> summary;
  for (std::size_t i = 0; i < kTensors.size(); ++i) {
    const double least = i == kOut ? 0 : gradients / 16;
    const double norm = std::sqrt(std::max(norms[i], least));
    const double relative = errors[i] == 0 ? 0 : std::sqrt(errors[i]) / norm;
    summary.push_back({std::string(kTensors.at(i)), relative, worst[i]});
  }
  return summary;
}

double ResultSample::difference(const ResultSample& other) const {
  double largest = 0;
  for (const ResultError& error : other.errors_of(*this)) {
    largest = worse_of(largest, error.relative);
  }
  return largest;
}

}  // namespace jfa::tool
