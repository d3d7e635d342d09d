// Memory of a problem's tensors, between guards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "jfa/tensor.hpp"

namespace jfa::detail {

// Every byte starts as 0xff: NaN in every floating type, −1 in integers. Tensors are written over
// it, so whatever no tensor owns stays NaN. Under AddressSanitizer any access to the guards is
// reported at once; otherwise writes to them are found later, see all().
class Buffer {
 public:
  // `address_shift`: bytes by which data() misses a multiple of 64.
  Buffer(std::int64_t bytes, std::int64_t address_shift);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer();

  std::byte* data() { return memory_.data() + first_; }
  std::size_t size() const { return size_; }
  // Bytes in front of data() and behind its end that may be read and are looked at later; none
  // under AddressSanitizer.
  static std::size_t guard();
  // Guards included.
  std::span<const std::byte> all() const;
  void fill_with_ones();

 private:
  std::vector<std::byte> memory_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

// FNV-1a of the bytes; tells whether inputs have changed.
std::uint64_t fingerprint(std::span<const std::byte> bytes);

// Whether every byte of the buffer that belongs to none of the tensors is still 0xff.
bool rest_is_untouched(const Buffer& buffer, std::span<const Tensor> tensors);

}  // namespace jfa::detail
