// Forward jagged attention for Hopper: the kernel's configuration, its shared-memory plan and the
// hand-off between its roles.
//
//   service warpgroup   warp 0  load    takes work, streams Q, K and V by TMA
//                       warp 1  store   writes finished output tiles by TMA
//   compute warpgroups  softmax         64 query rows each: both matrix products, softmax or
//   activation, masks
//
// All roles walk the same flattened sequence of steps (tile, key block): a step's score product is
// issued together with the previous step's value product, across tile boundaries too, so that short
// sequences do not drain the pipeline. docs/hopper_forward.md draws the schedule.
#pragma once

#include "attention/activation.h"
#include "attention/work.h"
#include "tlx/channel.h"
#include "tlx/dot.h"
#include "tlx/roles.h"

namespace jfa::kernels::sm90 {

using namespace jfa::tlx;

// What one instance of the kernel is compiled for.
template <typename ElementT, u32 kDimV, u32 kValueDimV, u32 kKeysV, u32 kStagesV,
          Activation kActivationV, bool kCausalV>
struct ForwardConfig {
  using Element = ElementT;
  static constexpr u32 kDim = kDimV;  // head dimension of q and k, padded to a multiple of 16
  static constexpr u32 kValueDim = kValueDimV;  // of v and out
  static constexpr u32 kKeys = kKeysV;          // key rows of one block
  static constexpr u32 kStages = kStagesV;      // K and V blocks in flight
  static constexpr Activation kActivation = kActivationV;
  static constexpr bool kSoftmax = kActivation == Activation::softmax;
  static constexpr bool kCausal = kCausalV;

  static constexpr u32 kGroups = 2;  // compute warpgroups
  static constexpr u32 kRows = 64 * kGroups;
  using Budget = RoleBudget<kGroups>;

  using QueryTile = TileLayout<Element, kRows, kDim>;
  using KeyTile = TileLayout<Element, kKeys, kDim>;
  using ValueTile = TileLayout<Element, kKeys, kValueDim>;
  using OutTile = TileLayout<Element, 64, kValueDim>;  // one a warpgroup

  static constexpr u32 kConsumerWarps = 4 * kGroups;
  using Queries = TmaChannel<QueryTile, 2, kConsumerWarps>;
  using Keys = TmaChannel<KeyTile, kStages, kConsumerWarps>;
  using Values = TmaChannel<ValueTile, kStages, kConsumerWarps>;
};

// One work item as the roles see it: a tile in a head; rows == 0 ends the kernel.
struct Work {
  TileWork tile;
  int head;
  int padding[3];
};

// Zero before the first launch; every launch leaves them zero.
struct WorkCounters {
  unsigned next;      // work items taken beyond the first wave
  unsigned finished;  // CTAs that found nothing left
};

struct ForwardParameters {
  const TileWork* tiles;  // longest first
  const int* tile_count;
  WorkCounters* counters;
  int heads;
  int heads_per_section;  // divides `heads`: all tiles of these heads come before the next heads,
                          // so that their keys stay in L2
  int heads_per_kv_head;
  const void* q_offsets;  // packed tiles look their rows' sequences up here; int32
  const void* kv_offsets;
  float* lse;  // [heads, lse_rows], or null
  long long lse_rows;
  float scale;  // softmax: scale · log2(e)
  float out_scale;
  float leaky_slope;
};

// Every buffer and barrier of the CTA, in one place. Tiles first: they need 1024-byte alignment.
template <typename Config>
struct SharedPlan {
  static constexpr u32 kQueries = 0;
  static constexpr u32 kKeys = kQueries + Config::Queries::kTileBytes;
  static constexpr u32 kValues = kKeys + Config::Keys::kTileBytes;
  static constexpr u32 kOut = kValues + Config::Values::kTileBytes;
  static constexpr u32 kWork = kOut + Config::kGroups * Config::OutTile::kBytes;
  static constexpr u32 kWorkDepth = 2;
  // The store role takes part in the work channel as one more consumer warp.
  using WorkChannel = ValueChannel<Work, kWorkDepth, Config::kConsumerWarps + 1>;
  static constexpr u32 kQueryBarriers = kWork + WorkChannel::kValueBytes;
  static constexpr u32 kKeyBarriers = kQueryBarriers + Config::Queries::kBarrierBytes;
  static constexpr u32 kValueBarriers = kKeyBarriers + Config::Keys::kBarrierBytes;
  static constexpr u32 kWorkBarriers = kValueBarriers + Config::Values::kBarrierBytes;
  static constexpr u32 kOutBarriers =
      kWorkBarriers + WorkChannel::kBarrierBytes;  // one ring of depth 1 a warpgroup
  static constexpr u32 kBytes = kOutBarriers + Config::kGroups * RingBarriers<1>::kBytes;
  static_assert(
      kBytes <= kSharedBytesPerCta,
      "the tiles do not fit 227 KiB of shared memory: fewer stages or a smaller key block");
};

// The channels of one CTA, as seen from any of its threads.
template <typename Config>
struct Channels {
  using Plan = SharedPlan<Config>;
  typename Config::Queries queries;
  typename Config::Keys keys;
  typename Config::Values values;
  typename Plan::WorkChannel work;
  u32 out_tiles;
  u32 out_barriers;

  TLX_DEVICE explicit Channels(char* shared) {
    const u32 base = ptx::shared_address(shared);
    queries = {base + Plan::kQueries, {base + Plan::kQueryBarriers}};
    keys = {base + Plan::kKeys, {base + Plan::kKeyBarriers}};
    values = {base + Plan::kValues, {base + Plan::kValueBarriers}};
    work = {reinterpret_cast<Work*>(shared + Plan::kWork), {base + Plan::kWorkBarriers}};
    out_tiles = base + Plan::kOut;
    out_barriers = base + Plan::kOutBarriers;
  }

  TLX_DEVICE void initialise() const {
    queries.initialise();
    keys.initialise();
    values.initialise();
    work.initialise();
    for (u32 group = 0; group < Config::kGroups; ++group)
      out(group).initialise(4, 1);  // 4 warps fill, the store role empties
    ptx::fence_mbarrier_init();
  }

  // Staging of one finished [64, value dim] tile a compute group, with a ring of depth 1 each.
  TLX_DEVICE RingBarriers<1> out(u32 group) const {
    return {out_barriers + group * RingBarriers<1>::kBytes};
  }
  TLX_DEVICE u32 out_tile(u32 group) const { return out_tiles + group * Config::OutTile::kBytes; }
};

// Key blocks of a tile.
template <typename Config>
TLX_DEVICE i32 key_blocks(const TileWork& tile) {
  return ceil_div(tile.k_end - tile.k_begin, Config::kKeys);
}

}  // namespace jfa::kernels::sm90
