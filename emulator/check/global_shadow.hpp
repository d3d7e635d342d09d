// Shadow of global memory: shared by all clusters and kept between launches of a device.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "check/shadow.hpp"

namespace ptxemu::check {

struct GlobalShadow {
  std::mutex mutex;                             ///< held while any member is used
  std::map<std::uint64_t, Shadow> allocations;  // by address
  Records records;
  ReaderSets readers;

  /// The shadow that holds `address` and the offset in it; null for memory the checker was not told
  /// of (kernel parameters, constants).
  [[nodiscard]] Shadow* find(std::uint64_t address, std::uint64_t& offset);
  void allocate(std::uint64_t address, std::uint64_t bytes, bool initialised);
  void free(std::uint64_t address);
  void set_initialised(std::uint64_t address, std::uint64_t bytes);
  /// A kernel boundary orders everything: forgets accesses, keeps what is initialised.
  void end_kernel();
};

}  // namespace ptxemu::check
