// Registers of a warp or warpgroup for tests: storage plus the lists of lane registers that the
// tensor functions take.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tensor/matrix_types.hpp"

namespace ptxemu::tensor {

class Registers {
 public:
  explicit Registers(unsigned count) : words_(count * 32) {
    for (unsigned i = 0; i < count; ++i) {
      lanes_.push_back(words_.data() + 32 * i);
      const_lanes_.push_back(words_.data() + 32 * i);
    }
  }
  Registers(const Registers&) = delete;
  Registers& operator=(const Registers&) = delete;

  void randomise(std::mt19937& random) {
    for (std::uint32_t& word : words_) word = static_cast<std::uint32_t>(random());
  }
  [[nodiscard]] const std::vector<LaneRegister>& lanes() const { return lanes_; }
  [[nodiscard]] const std::vector<ConstLaneRegister>& const_lanes() const { return const_lanes_; }
  [[nodiscard]] std::vector<std::uint32_t>& words() { return words_; }

 private:
  std::vector<std::uint32_t> words_;
  std::vector<LaneRegister> lanes_;
  std::vector<ConstLaneRegister> const_lanes_;
};

}  // namespace ptxemu::tensor
