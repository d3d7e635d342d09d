#include "problem/buffer.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "api/scalar.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define JFA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define JFA_ASAN 1
#endif
#endif
#if defined(JFA_ASAN)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) (static_cast<void>(address))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) (static_cast<void>(address))
#endif

namespace jfa::detail {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kGuard = 256;
#if defined(JFA_ASAN)
constexpr std::size_t kInspectedGuard = 0;
#else
constexpr std::size_t kInspectedGuard = kGuard;
#endif
constexpr std::byte kOnes{0xff};

}  // namespace

Buffer::Buffer(std::int64_t bytes, std::int64_t address_shift)
    : size_(static_cast<std::size_t>(bytes)) {
  const auto shift = static_cast<std::size_t>(address_shift);
  memory_.assign(kGuard + kAlignment + shift + size_ + kGuard, kOnes);
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data()) + kGuard;
  first_ = kGuard + (kAlignment - address % kAlignment) % kAlignment + shift;
  ASAN_POISON_MEMORY_REGION(memory_.data(), first_);
  ASAN_POISON_MEMORY_REGION(memory_.data() + first_ + size_, kGuard);
}

Buffer::Buffer(Buffer&& other) noexcept = default;

Buffer::~Buffer() {
  ASAN_UNPOISON_MEMORY_REGION(memory_.data(), memory_.size());
}

std::size_t Buffer::guard() {
  return kInspectedGuard;
}

std::span<const std::byte> Buffer::all() const {
  return {memory_.data() + first_ - kInspectedGuard, size_ + 2 * kInspectedGuard};
}

void Buffer::fill_with_ones() {
  std::fill_n(data(), size_, kOnes);
}

std::uint64_t fingerprint(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  std::uint64_t hash = 0xcbf29ce484222325;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {  // eight bytes at once: order and value still count
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, 8);
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 29;
  }
  for (; i < bytes.size(); ++i) hash = (hash ^ static_cast<std::uint64_t>(bytes[i])) * kPrime;
  return hash;
}

bool rest_is_untouched(const Buffer& buffer, std::span<const Tensor> tensors) {
  const std::span<const std::byte> all = buffer.all();
  std::vector<std::byte> rest(all.begin(), all.end());
  for (const Tensor& tensor : tensors) {
    const auto size = static_cast<std::size_t>(size_of(tensor.dtype));
    const auto first =
        static_cast<std::size_t>(static_cast<const std::byte*>(tensor.data) - all.data());
    for_each_index(tensor, [&](const std::array<std::int64_t, 4>& index) {
      const auto offset = static_cast<std::size_t>(element_offset(tensor, index));
      std::memset(rest.data() + first + offset * size, 0xff, size);
    });
  }
  return std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == kOnes; });
}

}  // namespace jfa::detail
