// Forward jagged attention for Hopper: the kernel's configuration, its shared-memory plan and the
// hand-off between its roles.
//
//   service warpgroup   warp 0     load    takes work, streams Q, K and V by TMA
//                       warp 1     store   writes finished output tiles by TMA
//                       warps 2-3  zero    rows of out that belong to nobody
//   compute warpgroups  softmax            64 query rows each: both matrix products, softmax or
//                                          activation, masks
//
// All roles walk the same flattened sequence of steps (tile, key block): a step's score product is
// issued together with the previous step's value product, across tile boundaries too, so that short
// sequences do not drain the pipeline. docs/hopper_forward.md draws the schedule.
//
// A compute warpgroup's 64 rows are kPacked heads of kTokens query rows each, head by head.
#pragma once

#include "attention/activation.h"
#include "attention/forward_arguments.h"
#include "attention/sm90/forward_shape.h"
#include "tlx/channel.h"
#include "tlx/dot.h"
#include "tlx/roles.h"
#include "tlx/shared_plan.h"

namespace jfa::kernels::sm90 {

using namespace jfa::tlx;

// What one instance of the kernel is compiled for. kMask is a MaskParameters::Kind.
template <typename ElementT, u32 kDimV, u32 kValueDimV, Activation kActivationV, int kMaskV,
          u32 kPackedV, bool kOutScalesV, bool kLongKeysV>
struct ForwardConfig {
  using Element = ElementT;
  static constexpr ForwardShape kShape = forward_shape(kDimV, kValueDimV, kLongKeysV);
  static constexpr u32 kDim = kShape.dim;             // columns of q and k, zero-filled
  static constexpr u32 kValueDim = kShape.value_dim;  // of v and out
  static constexpr u32 kKeys = kShape.keys;           // key rows of one block
  static constexpr u32 kStages = kShape.stages;       // K and V blocks in flight
  static constexpr Activation kActivation = kActivationV;
  static constexpr bool kSoftmax = kActivation == Activation::softmax;
  static constexpr int kMask = kMaskV;
  static constexpr bool kOutScales = kOutScalesV;  // factors of out by sequence or row
  static constexpr bool kTwoIntervals = has_two_intervals(kMask);

  static constexpr u32 kGroups = kShape.groups;  // compute warpgroups
  static constexpr u32 kRows = kGroups * kForwardGroupRows;
  static constexpr u32 kPacked = kPackedV;
  static constexpr u32 kTokens = kForwardGroupRows / kPacked;
  static constexpr u32 kUsedRows = kTokens * kPacked;  // of a warpgroup's 64
  using Budget = RoleBudget<kGroups>;
  static_assert(Budget::kThreads == forward_threads(kShape));

  using QueryTile = TileLayout<Element, kForwardGroupRows, kDim>;  // of one warpgroup
  using OutTile = TileLayout<Element, kForwardGroupRows, kValueDim>;
  using KeyTile = TileLayout<Element, kKeys, kDim>;
  using ValueTile = TileLayout<Element, kKeys, kValueDim>;

  static constexpr u32 kConsumerWarps = 4 * kGroups;
  using Queries = TmaChannel<QueryTile, kShape.query_stages, 4>;  // one a warpgroup
  using Keys = TmaChannel<KeyTile, kStages, kConsumerWarps>;
  using Values = TmaChannel<ValueTile, kStages, kConsumerWarps>;
};

constexpr float kNegativeInfinity = -__builtin_bit_cast(float, 0x7f800000);  // also known to NVRTC

// One work item as the roles see it: a tile in a work head; rows == 0 ends the kernel.
struct Work {
  TileWork tile;
  int head;
  int padding[3];
};

// What one query row of the current tile may see, in keys counted from the tile's k_first: keys
// [low, high), and [low2, high2) for masks of two intervals. Rarely read: only where a block needs
// a mask.
struct alignas(16) RowKeys {
  int low, high;
  int low2, high2;
};

// Every buffer and barrier of the CTA.
template <typename Config>
struct ForwardMemory {
  // Compute roles hold two items, the current and the next one; the load role is two ahead.
  static constexpr u32 kWorkDepth = 4;
  // The store and load roles take part in the work channel as two more consumer warps.
  using WorkChannel = ValueChannel<Work, kWorkDepth, Config::kConsumerWarps + 2>;

  template <typename Channel, u32 kCount = 1>
  using TileRegion = Region<kCount * Channel::kTileBytes, 1024>;
  template <typename Channel, u32 kCount = 1>
  using BarrierRegion = Region<kCount * Channel::kBarrierBytes, 8>;

  struct Queries : TileRegion<typename Config::Queries, Config::kGroups> {};
  struct Keys : TileRegion<typename Config::Keys> {};
  struct Values : TileRegion<typename Config::Values> {};
  struct Out : Region<Config::kGroups * Config::OutTile::kBytes, 1024> {};
  struct Rows : Region<Config::kRows * sizeof(RowKeys)> {};
  struct WorkItems : Region<WorkChannel::kValueBytes> {};
  struct QueryBarriers : BarrierRegion<typename Config::Queries, Config::kGroups> {};
  struct KeyBarriers : BarrierRegion<typename Config::Keys> {};
  struct ValueBarriers : BarrierRegion<typename Config::Values> {};
  struct WorkBarriers : BarrierRegion<WorkChannel> {};
  struct OutBarriers : Region<Config::kGroups * RingBarriers<1>::kBytes, 8> {};

  using Plan = SharedPlan<Distinct<Queries, Keys, Values, Out, Rows, WorkItems, QueryBarriers,
                                   KeyBarriers, ValueBarriers, WorkBarriers, OutBarriers>>;
  static_assert(Plan::kBytes <= forward_shared_bytes(Config::kShape),
                "the host allocates less shared memory than the kernel uses: see forward_shape.h");
  static_assert(
      forward_shared_bytes(Config::kShape) <= kSharedBytesPerCta,
      "the tiles do not fit 227 KiB of shared memory: fewer stages or a smaller key block");

  template <typename Name>
  static constexpr u32 offset = Plan::template offset<Name>;
};

// The channels of one CTA, as seen from any of its threads.
template <typename Config>
struct Channels {
  using Memory = ForwardMemory<Config>;
  typename Config::Keys keys;
  typename Config::Values values;
  typename Memory::WorkChannel work;
  u32 base;  // shared address of everything

  TLX_DEVICE explicit Channels(char* shared) {
    base = ptx::shared_address(shared);
    keys = {at<typename Memory::Keys>(), {at<typename Memory::KeyBarriers>()}};
    values = {at<typename Memory::Values>(), {at<typename Memory::ValueBarriers>()}};
    work = {at<typename Memory::WorkItems>(), {at<typename Memory::WorkBarriers>()}};
  }

  // Shared address of a region.
  template <typename Name>
  TLX_DEVICE u32 at() const {
    return base + Memory::template offset<Name>;
  }

  TLX_DEVICE void initialise() const {
    keys.initialise();
    values.initialise();
    work.initialise();
    for (u32 group = 0; group < Config::kGroups; ++group) {
      queries(group).initialise();
      out(group).initialise(4, 1);  // 4 warps fill, the store role empties
    }
    ptx::fence_mbarrier_init();
  }

  // Queries of one warpgroup: free as soon as it has multiplied them with the last keys, whatever
  // the others do.
  TLX_DEVICE typename Config::Queries queries(u32 group) const {
    using Queries = typename Config::Queries;
    return {at<typename Memory::Queries>() + group * Queries::kTileBytes,
            {at<typename Memory::QueryBarriers>() + group * Queries::kBarrierBytes}};
  }

  // Where a warpgroup stages a finished [64, value dim] tile, and its ring of depth 1.
  TLX_DEVICE u32 out_tile(u32 group) const {
    return at<typename Memory::Out>() + group * Config::OutTile::kBytes;
  }
  TLX_DEVICE RingBarriers<1> out(u32 group) const {
    return {at<typename Memory::OutBarriers>() + group * RingBarriers<1>::kBytes};
  }

  // RowKeys of a warpgroup's 64 rows.
  TLX_DEVICE RowKeys* row_keys(u32 group) const {
    return ptx::shared_pointer<RowKeys>(at<typename Memory::Rows>() +
                                        group * kForwardGroupRows * sizeof(RowKeys));
  }
};

// Key blocks of a tile, and the first key of one: blocks leave out the tile's gap.
template <typename Config>
TLX_DEVICE i32 key_blocks(const TileWork& tile) {
  return ceil_div(tile.k_end - tile.k_begin - (tile.gap_end - tile.gap_begin), Config::kKeys);
}
template <typename Config>
TLX_DEVICE i32 first_key(const TileWork& tile, i32 block) {
  const i32 key = tile.k_begin + block * static_cast<i32>(Config::kKeys);
  return key < tile.gap_begin ? key : key + tile.gap_end - tile.gap_begin;
}

}  // namespace jfa::kernels::sm90
