// Data races, missing proxy fences and buffers reused while an asynchronous operation owns them.
#pragma once

#include <vector>

#include "check/global_shadow.hpp"
#include "check/synchronisation.hpp"

namespace ptxemu::check {

/// Judges every access of one cluster against the shadow. Registers nothing it cannot judge later.
class Races {
 public:
  Races(const exec::ClusterView& view, Synchronisation& synchronisation, GlobalShadow& global,
        exec::ReportSink& sink);
  void on_access(const exec::Access& access);

 private:
  /// One access being judged: a lane of a warp or an asynchronous operation.
  struct Actor {
    RecordId id = 0;
    const Record* record = nullptr;
    std::uint8_t memory_cta = 0;
    bool shared = false;
    bool silent = false;  ///< a store of the value that is already there
  };
  struct Memory {
    Shadow* shadow = nullptr;
    Records* records = nullptr;
    ReaderSets* readers = nullptr;
  };
  void check_range(const Actor& actor, const Memory& memory, std::uint64_t offset,
                   std::uint64_t bytes, std::uint64_t address);
  void check_cell(const Actor& actor, const Memory& memory, Cell& cell, std::uint64_t address);
  void check_pair(const Actor& actor, const Memory& memory, RecordId prior, std::uint64_t address);
  [[nodiscard]] bool ordered(const Actor& actor, const Record& prior, unsigned prior_lane) const;
  [[nodiscard]] bool fenced(const Actor& actor, const Record& prior, unsigned prior_lane) const;
  [[nodiscard]] bool known(const Knowledge& knowledge, const Actor& actor, const Record& prior,
                           unsigned prior_lane) const;
  /// Whether the lane stores what its target holds already.
  [[nodiscard]] bool stores_same_value(const exec::Access& access, unsigned lane) const;
  Record make_record(const exec::Access& access, const std::shared_ptr<Operation>& operation);

  const exec::ClusterView& view_;
  Synchronisation& synchronisation_;
  GlobalShadow& global_;
  exec::ReportSink& sink_;
  std::vector<Shadow> shared_;  // by CTA
  Records shared_records_;
  ReaderSets shared_readers_;
};

}  // namespace ptxemu::check
