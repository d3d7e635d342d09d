// Memory locations used for synchronisation (atomics, release/acquire, volatile): what was released
// there.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "check/vector_clock.hpp"

namespace ptxemu::check {

/// Shared by all clusters of a launch; thread-safe.
class SyncVariables {
 public:
  /// Where a release is stored: the address, and with CTA scope the only CTA that sees it.
  struct Place {
    std::uint64_t address = 0;
    std::uint64_t cta = 0;  ///< 0 = every CTA, else a number of the CTA plus one
    friend bool operator==(const Place&, const Place&) = default;
  };
  /// What threads of one cluster released at a place.
  using Released = std::pair<std::uint64_t, std::shared_ptr<const Knowledge>>;

  void release(const Place& place, std::uint64_t cluster,
               const std::shared_ptr<const Knowledge>& knowledge);
  /// Appends what was released at the place, unless it is the last entry already.
  void collect(const Place& place, std::vector<Released>& released) const;
  void clear();

 private:
  struct Hash {
    std::size_t operator()(const Place& place) const {
      return std::hash<std::uint64_t>{}(place.address * 0x9e3779b97f4a7c15u ^ place.cta);
    }
  };
  mutable std::mutex mutex_;
  std::unordered_map<Place, std::vector<Released>, Hash> places_;
};

}  // namespace ptxemu::check
