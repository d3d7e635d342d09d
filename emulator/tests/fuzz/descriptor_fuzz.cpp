// Fuzz entry: any 64 bits as a shared-memory matrix descriptor, and the operand tile it names.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tensor/descriptor.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ptxemu::tensor;
  std::uint64_t bits = 0;
  if (size < sizeof bits + 3) return 0;
  std::memcpy(&bits, data, sizeof bits);
  const auto major = static_cast<Major>(data[8] % 2);
  const unsigned element_bytes = major == Major::mn ? 2 : 1u << data[9] % 3;
  const unsigned rows = (data[10] % 32 + 1) * 8;
  const MatrixDescriptor descriptor = MatrixDescriptor::decode(bits);
  if (descriptor_error(bits).empty() && descriptor.encode() != bits) std::abort();
  for (const std::uint32_t chunk : operand_chunks(descriptor, major, rows, element_bytes)) {
    if (chunk >= 1u << 18) std::abort();  // the address field has 18 bits
  }
  return 0;
}
