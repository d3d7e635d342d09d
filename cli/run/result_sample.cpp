#include "run/result_sample.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "run/runner.hpp"

namespace jfa::tool {

ResultSample::ResultSample(std::vector<std::int64_t> users) : users_(std::move(users)) {}

void ResultSample::take(const HistoryBatch& batch, std::int64_t first) {
  const BackwardArgs args = batch.backward();
  const std::array<Tensor, kTensors.size()> tensors = {batch.forward().out, args.d_q, args.d_k,
                                                       args.d_v};
  const auto begin = std::lower_bound(users_.begin(), users_.end(), first);
  const auto end = std::lower_bound(begin, users_.end(), first + batch.users());
  for (auto user = begin; user != end; ++user) {
    UserResults& results = taken_[*user];
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Tensor rows = batch.rows_of(tensors[i], *user - first);
      results[i].resize(static_cast<std::size_t>(rows.elements()));
      convert(rows, contiguous(results[i].data(), DType::float64,
                               {rows.shape[0], rows.shape[1], rows.shape[2]}));
    }
  }
}

std::vector<ResultError> ResultSample::errors_of(const ResultSample& results) const {
  std::vector<ResultError> errors;
  for (std::size_t i = 0; i < kTensors.size(); ++i) {
    double error = 0;
    double norm = 0;
    double worst = 0;
    for (const auto& [user, truth] : taken_) {
      const auto other = results.taken_.find(user);
      if (other == results.taken_.end()) continue;
      for (std::size_t element = 0; element < truth[i].size(); ++element) {
        const double distance = std::abs(other->second[i][element] - truth[i][element]);
        error += distance * distance;
        norm += truth[i][element] * truth[i][element];
        if (!(distance <= worst)) worst = distance;  // also takes a NaN
      }
    }
    const double relative = error == 0 ? 0 : std::sqrt(error / norm);
    errors.push_back({std::string(kTensors.at(i)), relative, worst});
  }
  return errors;
}

double ResultSample::difference(const ResultSample& other) const {
  double largest = 0;
  for (const ResultError& error : other.errors_of(*this)) {
    if (!(error.relative <= largest)) largest = error.relative;
  }
  return largest;
}

}  // namespace jfa::tool
