// The results of some users, kept in float64 to be compared.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "run/history_batch.hpp"

namespace jfa::tool {

struct ResultError;

class ResultSample {
 public:
  // Of the first `users` users.
  explicit ResultSample(std::int64_t users) : users_(users) {}

  // Copies the results of those that are in the batch, whose first user is `first`.
  void take(const HistoryBatch& batch, std::int64_t first);

  // Errors of `results` with this sample as the truth; users that both have taken count.
  std::vector<ResultError> errors_of(const ResultSample& results) const;

  // The largest relative error over all tensors.
  double difference(const ResultSample& other) const;

 private:
  static constexpr std::array<std::string_view, 4> kTensors = {"out", "d_q", "d_k", "d_v"};
  using UserResults = std::array<std::vector<double>, kTensors.size()>;

  std::int64_t users_;
  std::map<std::int64_t, UserResults> taken_;
};

}  // namespace jfa::tool
