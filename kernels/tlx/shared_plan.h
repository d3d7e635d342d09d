// Shared-memory plans: regions and how they may overlap, as one tree of types. Offsets, alignment
// and total are constants; nobody adds offsets by hand.
//
//   struct Queries : Region<32768, 1024> {};
//   struct Stages : Region<65536, 1024> {};
//   struct Output : Region<49152, 1024> {};   // written after the last stage has been read
//   struct Barriers : Region<64, 8> {};
//   using Memory = SharedPlan<Distinct<Queries, Overlapping<Stages, Output>, Barriers>>;
//   Memory::kBytes, Memory::offset<Output>
#pragma once

#include "tlx/base.h"

namespace jfa::tlx {

// A leaf of the tree, named by the type that derives from it.
template <u32 kBytesV, u32 kAlignmentV = 16>
struct Region {
  static_assert((kAlignmentV & (kAlignmentV - 1)) == 0,
                "alignments are powers of two: 1024 for tiles, 8 for barriers");
  static constexpr u32 kBytes = kBytesV;
  static constexpr u32 kAlignment = kAlignmentV;
};

constexpr u32 kNotInPlan = ~0U;

namespace shared_plan {

TLX_HOST_DEVICE u32 align_up(u32 offset, u32 alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}
TLX_HOST_DEVICE u32 larger(u32 a, u32 b) {
  return a > b ? a : b;
}

// Groups have a find of their own; a region is found by being it.
template <typename Node, typename Name>
TLX_HOST_DEVICE u32 find(u32 start) {
  if constexpr (is_same<Node, Name>) {
    return start;
  } else if constexpr (requires { Node::template find<Name>(start); }) {
    return Node::template find<Name>(start);
  } else {
    return kNotInPlan;
  }
}
template <typename Node, typename Name>
TLX_HOST_DEVICE u32 count() {
  if constexpr (is_same<Node, Name>) {
    return 1;
  } else if constexpr (requires { Node::template count<Name>(); }) {
    return Node::template count<Name>();
  } else {
    return 0;
  }
}

}  // namespace shared_plan

// Children that are alive together: one behind the other.
template <typename... Nodes>
struct Distinct {
  static constexpr u32 kAlignment = [] {
    u32 alignment = 1;
    ((alignment = shared_plan::larger(alignment, Nodes::kAlignment)), ...);
    return alignment;
  }();
  static constexpr u32 kBytes = [] {
    u32 end = 0;
    ((end = shared_plan::align_up(end, Nodes::kAlignment) + Nodes::kBytes), ...);
    return end;
  }();

  template <typename Name>
  static TLX_HOST_DEVICE u32 find(u32 start) {
    u32 found = kNotInPlan;
    const auto visit = [&]<typename Node>() {
      start = shared_plan::align_up(start, Node::kAlignment);
      const u32 offset = shared_plan::find<Node, Name>(start);
      if (offset != kNotInPlan) found = offset;
      start += Node::kBytes;
    };
    (visit.template operator()<Nodes>(), ...);
    return found;
  }
  template <typename Name>
  static TLX_HOST_DEVICE u32 count() {
    return (shared_plan::count<Nodes, Name>() + ... + 0);
  }
};

// Children that are never alive together: all start at the same place. The kernel orders the last
// access of one before the first of the next, and asynchronous readers (TMA stores, wgmma) too.
template <typename... Nodes>
struct Overlapping {
  static constexpr u32 kAlignment = Distinct<Nodes...>::kAlignment;
  static constexpr u32 kBytes = [] {
    u32 bytes = 0;
    ((bytes = shared_plan::larger(bytes, Nodes::kBytes)), ...);
    return bytes;
  }();

  template <typename Name>
  static TLX_HOST_DEVICE u32 find(u32 start) {
    u32 found = kNotInPlan;
    const auto visit = [&](u32 offset) {
      if (offset != kNotInPlan) found = offset;
    };
    (visit(shared_plan::find<Nodes, Name>(start)), ...);
    return found;
  }
  template <typename Name>
  static TLX_HOST_DEVICE u32 count() {
    return (shared_plan::count<Nodes, Name>() + ... + 0);
  }
};

template <typename Tree, u32 kLimit = kSharedBytesPerCta>
struct SharedPlan {
  static constexpr u32 kBytes = Tree::kBytes;
  static constexpr u32 kAlignment = Tree::kAlignment;
  static_assert(kBytes <= kLimit,
                "the plan needs more shared memory than a CTA can have (227 KiB): take fewer "
                "stages or smaller tiles, or put regions that are never alive together into "
                "Overlapping<…>");

  template <typename Name>
  static constexpr u32 offset = [] {
    static_assert(shared_plan::count<Tree, Name>() != 0,
                  "this region is not in the plan: add it to the tree");
    static_assert(shared_plan::count<Tree, Name>() <= 1,
                  "this region is twice in the plan: derive a type of its own for each place");
    return Tree::template find<Name>(0);
  }();
};

}  // namespace jfa::tlx
