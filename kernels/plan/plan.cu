// The plan kernel: one cluster turns offsets into the work list of a batch.
//
// Each CTA takes a range of sequences and looks at them twice, section by section, a thread a
// sequence: the first time it counts tiles by work class, the second time it knows where the tiles
// of each class begin and writes them. Tiles of one class are in the order CTA, warp, section,
// batch, so that the same batch always gives the same list.
#include "plan/sequence.h"
#include "plan/tile_keys.h"
#include "tlx/cluster.h"
#include "tlx/ptx.h"

namespace jfa::kernels {

using namespace jfa::tlx;

constexpr u32 kWarps = kPlanThreads / kWarpThreads;
constexpr u32 kAllLanes = 0xffffffff;

// Classes that tiles are sorted by, most work first, and behind them that of the gap pieces.
constexpr int kTileClasses = 128;
constexpr int kGapClass = kTileClasses;
constexpr int kClasses = kTileClasses + 1;
static_assert(kClasses <= kPlanThreads, "a thread a class");

// Work is counted in key blocks of half a tile; above 2^16 of them all are "most".
TLX_DEVICE int class_of_work(int half_blocks) {
  const int c = work_class(half_blocks) - (kWorkClasses - kTileClasses);
  return c < 0 ? 0 : c;
}
TLX_DEVICE int tile_class(const PlanArguments& p, const TileWork& tile) {
  const int keys = tile.k_end - tile.k_begin - (tile.gap_end - tile.gap_begin);
  return class_of_work(ceil_div(keys, p.key_block) * (tile.rows * 2 > p.tile_tokens ? 2 : 1));
}

struct PlanMemory {
  // The section.
  int q_first[kPlanThreads], q_length[kPlanThreads];
  int k_first[kPlanThreads], k_length[kPlanThreads];
  int out_first[kPlanThreads];
  int sharing[kPlanThreads];    // sequences of the tile that begins here, if it is shared
  int tiles_end[kPlanThreads];  // tiles of the sequences up to here
  u32 breaks[kWarps + 1];       // bit lane: no tile reaches over the beginning of this sequence
  u32 works[kWarps + 1];        // bit lane: the sequence has rows and keys
  unsigned char next_lane[kWarps][kWarpThreads];  // where the next warp is entered, by entry lane
  int warp_tiles[kWarps];
  // The CTA.
  int taken[kWarps][kClasses];  // first the counts, then the next places
  int totals[kClasses];         // of all warps; read by the cluster
  int longest_keys;             // likewise
  int cluster_longest_keys;     // of all CTAs
};

template <int kMask>
class PlanBlock {
 public:
  TLX_DEVICE PlanBlock(const PlanArguments& arguments, PlanMemory& shared)
      : p_(arguments),
        m_(shared),
        section_(plan_section(arguments.batch, static_cast<int>(gridDim.x))),
        rules_(device_rules(arguments, section_)),
        thread_(static_cast<int>(threadIdx.x)),
        warp_(thread_ / static_cast<int>(kWarpThreads)),
        lane_(threadIdx.x % kWarpThreads) {}

  TLX_DEVICE void run() {
    for (int i = thread_; i < static_cast<int>(kWarps) * kClasses; i += kPlanThreads)
      m_.taken[i / kClasses][i % kClasses] = 0;
    if (thread_ == 0) m_.longest_keys = 0;
    __syncthreads();
    pass<false>();
    exchange();
    pass<true>();
    write_outer_gaps();
    ptx::cluster_wait();  // nobody reads the totals of a CTA that has gone
  }

 private:
  template <bool kWrite>
  TLX_DEVICE void pass() {
    const int sections = ceil_div(ceil_div(p_.batch, section_), static_cast<int>(gridDim.x));
    const int first = static_cast<int>(blockIdx.x) * sections;
    for (int i = first; i < first + sections && i * section_ < p_.batch; ++i) {
      const int begin = i * section_;
      // The only section of a CTA is still there the second time.
      if (!kWrite || sections > 1) {
        read_sequence<kWrite>(begin, smaller(p_.batch - begin, section_));
        find_tiles();
      }
      put_gaps<kWrite>();
      const int tiles = m_.tiles_end[kPlanThreads - 1];
      // A warp takes neighbouring tiles: they are likely to share keys.
      const int rounds = ceil_div(tiles, kPlanThreads);
      for (int round = 0; round < rounds; ++round) {
        const int tile = (warp_ * rounds + round) * static_cast<int>(kWarpThreads) + lane_;
        put_tile<kWrite>(begin, tile, tile < tiles);
      }
      __syncthreads();
    }
  }

  // Puts the section's sequences [begin, begin + count) into shared memory.
  template <bool kWrite>
  TLX_DEVICE void read_sequence(int begin, int count) {
    present_ = thread_ < count;
    Sequence sequence{};
    if (present_) sequence = sequence_of(p_, begin + thread_);
    rows_ = sequence.rows;
    works_ = has_work(rows_.q_length, rows_.k_length);
    gap_first_ = rows_.out_first + (works_ ? rows_.q_length : 0);
    gap_end_ = sequence.out_end;
    m_.q_first[thread_] = rows_.q_first;
    m_.q_length[thread_] = rows_.q_length;
    m_.k_first[thread_] = rows_.k_first;
    m_.k_length[thread_] = rows_.k_length;
    m_.out_first[thread_] = rows_.out_first;
    if constexpr (!kWrite) {
      if (present_) p_.sequences[begin + thread_] = rows_;
      const int longest = ptx::warp_max(rows_.k_length);
      if (lane_ == 0) atomicMax(&m_.longest_keys, longest);
    }
    __syncthreads();
  }

  // Fills tiles_end and sharing: how the rows of the section make tiles.
  TLX_DEVICE void find_tiles() {
    const bool shares = may_share(rules_, rows_.q_length, rows_.k_length);
    const bool breaks = !present_ || !shares || !follows_the_one_before();
    const u32 break_bits = __ballot_sync(kAllLanes, breaks);
    const u32 work_bits = __ballot_sync(kAllLanes, works_);
    if (lane_ == 0) {
      m_.breaks[warp_] = break_bits;
      m_.works[warp_] = work_bits;
    }
    if (thread_ == 0) {
      m_.breaks[kWarps] = kAllLanes;
      m_.works[kWarps] = 0;
    }
    __syncthreads();
    const int next = works_ && shares ? end_of_tile(rows_.q_first) : thread_ + 1;
    const bool begins = chain(next);
    int tiles = 0;
    if (begins && works_) {
      tiles = shares ? 1 : tiles_of_rows(rules_, rows_.q_length);
      m_.sharing[thread_] = shares ? sharing(next) : 1;
    }
    m_.tiles_end[thread_] = sum_to_here(tiles);
    __syncthreads();
  }

  // Nothing reaches over the beginning of a section.
  TLX_DEVICE bool follows_the_one_before() const {
    if (thread_ == 0) return false;
    const int i = thread_ - 1;
    return follows(
        {m_.q_first[i], m_.q_length[i], m_.k_first[i], m_.k_length[i], m_.out_first[i], {}}, rows_);
  }

  // The 64 bits from this thread's on.
  TLX_DEVICE u64 from_here(const u32* words) const {
    return (u64{words[warp_ + 1]} << 32 | words[warp_]) >> lane_;
  }

  // The first sequence that no longer fits the tile that begins with this thread's.
  TLX_DEVICE int end_of_tile(int first_row) const {
    const u32 breaks = static_cast<u32>(from_here(m_.breaks) >> 1);
    int low = thread_ + 1;
    int high = low + (breaks != 0 ? __ffs(breaks) - 1 : kPackedSequences - 1);
    while (low < high) {
      const int middle = (low + high) / 2;
      if (m_.q_first[middle] + m_.q_length[middle] - first_row > rules_.pack_rows) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  // Sequences up to the last one with work before `next`.
  TLX_DEVICE int sharing(int next) const {
    const u64 works = from_here(m_.works) & ((u64{1} << (next - thread_)) - 1);
    return 64 - __clzll(works);
  }

  // Whether this thread's sequence begins a tile when the section's first one does and each tile is
  // followed by that at `next`. A warp finds what can be reached from each of its lanes, and where
  // the next warp is entered then, by doubling; every warp follows the chain of entries to itself.
  TLX_DEVICE bool chain(int next) {
    constexpr int kLanes = static_cast<int>(kWarpThreads);
    int jump = next - warp_ * kLanes;
    u32 reached = 1U << lane_;
    for (int step = 1; step < kLanes; step *= 2) {
      const u32 reached_there = __shfl_sync(kAllLanes, reached, jump);
      const int jump_there = __shfl_sync(kAllLanes, jump, jump);
      if (jump < kLanes) {
        reached |= reached_there;
        jump = jump_there;
      }
    }
    m_.next_lane[warp_][lane_] = static_cast<unsigned char>(jump - kLanes);
    __syncthreads();
    u32 entry = 0;
    for (int warp = 0; warp < warp_; ++warp) entry = m_.next_lane[warp][entry];
    return (__shfl_sync(kAllLanes, reached, static_cast<int>(entry)) >> lane_ & 1) != 0;
  }

  // Tiles up to this thread's sequence. Sums stay below 2^30, whatever the offsets.
  TLX_DEVICE int sum_to_here(int value) {
    int sum = warp_sum_to_here(value);
    if (lane_ == kWarpThreads - 1) m_.warp_tiles[warp_] = sum;
    __syncthreads();
    const int before = warp_sum_to_here(lane_ < kWarps ? m_.warp_tiles[lane_] : 0);
    const int warps_before = __shfl_sync(kAllLanes, before, warp_ == 0 ? 0 : warp_ - 1);
    return smaller(sum + (warp_ == 0 ? 0 : warps_before), kMostSum);
  }
  TLX_DEVICE int warp_sum_to_here(int value) const {
    for (u32 step = 1; step < kWarpThreads; step *= 2) {
      const int other = __shfl_up_sync(kAllLanes, value, step);
      if (lane_ >= step) value = smaller(value + other, kMostSum);
    }
    return value;
  }

  // Tile `index` of the section goes to its place.
  template <bool kWrite>
  TLX_DEVICE void put_tile(int begin, int index, bool present) {
    TileWork tile{};
    int c = -1;
    if (present) {
      tile = tile_at(begin, index);
      c = tile_class(p_, tile);
    }
    const int place = take(c, present);
    if (kWrite && present && place < p_.most_tiles) p_.tiles[place] = tile;
  }

  TLX_DEVICE TileWork tile_at(int begin, int index) const {
    int low = 0, high = kPlanThreads - 1;  // the first sequence with tiles beyond `index`
    while (low < high) {
      const int middle = (low + high) / 2;
      if (m_.tiles_end[middle] > index) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    const int s = low;
    TileWork tile{};
    tile.sequence = begin + s;
    tile.sequences = m_.sharing[s];
    tile.q_length = m_.q_length[s];
    tile.k_length = m_.k_length[s];
    tile.k_first = m_.k_first[s];
    if (tile.sequences > 1) {
      // The rows see one or two blocks of keys in all: no bounds are looked for.
      const int last = s + tile.sequences - 1;
      tile.rows = m_.q_first[last] + m_.q_length[last] - m_.q_first[s];
      tile.k_end = m_.k_first[last] + m_.k_length[last] - m_.k_first[s];
      tile.gap_begin = tile.gap_end = tile.k_end;
    } else {
      const RowRange rows = cut(rules_, tile.q_length, index - (s == 0 ? 0 : m_.tiles_end[s - 1]));
      tile.q_offset = rows.first;
      tile.rows = rows.rows;
    }
    tile.q_first = m_.q_first[s] + tile.q_offset;
    tile.out_first = m_.out_first[s] + tile.q_offset;
    if (tile.sequences == 1) set_keys(tile);
    return tile;
  }

  TLX_DEVICE void set_keys(TileWork& tile) const {
    const TileKeys keys =
        tile_keys<kMask>(p_.mask, tile.sequence, tile.q_offset, tile.rows, tile.out_first,
                         tile.q_length, tile.k_length, p_.key_block);
    tile.k_begin = keys.begin;
    tile.k_end = keys.end;
    tile.gap_begin = keys.gap_begin;
    tile.gap_end = keys.gap_end;
    tile.full_begin = keys.full_begin;
    tile.full_end = keys.full_end;
  }

  // The rows of out that this thread's sequence owns and no tile has.
  template <bool kWrite>
  TLX_DEVICE void put_gaps() {
    const int pieces = gap_pieces(gap_end_ - gap_first_);
    if (!ptx::any(pieces > 0)) return;
    const int to_here = warp_sum_to_here(pieces);
    const int place = m_.taken[warp_][kGapClass] + to_here - pieces;
    __syncwarp();
    if (lane_ == kWarpThreads - 1) m_.taken[warp_][kGapClass] += to_here;
    __syncwarp();
    if constexpr (kWrite) {
      for (int i = 0; i < pieces; ++i) put_gap(place + i, gap_first_ + i * kGapRows, gap_end_);
    }
  }
  TLX_DEVICE void put_gap(int place, int first, int end) const {
    if (place < p_.most_gaps) p_.gaps[place] = {first, smaller(end - first, kGapRows)};
  }

  // The next place of class `c` in this warp's part of the list; all lanes take part.
  TLX_DEVICE int take(int c, bool present) {
    const u32 same = __match_any_sync(kAllLanes, c);
    const int leader = __ffs(same) - 1;
    int place = 0;
    if (present && static_cast<int>(lane_) == leader) {
      place = m_.taken[warp_][c];
      m_.taken[warp_][c] = place + __popc(same);
    }
    __syncwarp();
    return __shfl_sync(kAllLanes, place, leader) + __popc(same & ((1U << lane_) - 1));
  }

  // Turns counts into places: classes follow each other, in a class the CTAs, in a CTA its warps.
  TLX_DEVICE void exchange() {
    const int c = thread_;
    if (c < kClasses) {
      int total = 0;
      for (u32 warp = 0; warp < kWarps; ++warp) total += m_.taken[warp][c];
      m_.totals[c] = total;
    }
    __syncthreads();
    ptx::cluster_arrive();
    ptx::cluster_wait();
    int before = 0, all = 0;  // of the CTAs before this one, of all
    int longest = 0;
    if (c <= kClasses) {
      const u32 address = ptx::shared_address(c < kClasses ? &m_.totals[c] : &m_.longest_keys);
      for (u32 rank = 0; rank < gridDim.x; ++rank) {
        const int value = static_cast<int>(ptx::load_from_cta(address, rank));
        if (rank < blockIdx.x) before += value;
        all += value;
        longest = larger(longest, value);
      }
    }
    ptx::cluster_arrive();
    if (c == kClasses) m_.cluster_longest_keys = longest;
    const OuterGaps outer = outer_gaps(p_);
    const int outer_pieces =
        gap_pieces(outer.front_end) + gap_pieces(p_.out_rows - outer.back_first);
    // Only gaps do not follow the class before.
    const int classes_before = sum_to_here(c < kTileClasses ? all : 0) - all;
    if (c < kClasses) {
      int place = before + (c == kGapClass ? outer_pieces : classes_before);
      for (u32 warp = 0; warp < kWarps; ++warp) {
        const int count = m_.taken[warp][c];
        m_.taken[warp][c] = place;
        place += count;
      }
    }
    if (blockIdx.x == 0) {
      const int to_here = smaller(classes_before + all, p_.most_tiles);
      const int keys = m_.cluster_longest_keys;
      if (c == class_of_work(ceil_div(keys, p_.key_block))) p_.header->long_tiles = to_here;
      if (c == kTileClasses - 1) p_.header->tiles = to_here;
      if (c == kGapClass) p_.header->gaps = smaller(outer_pieces + all, p_.most_gaps);
      if (c == kClasses) p_.header->longest_keys = keys;
      for (int i = thread_; i < p_.counter_slots; i += kPlanThreads) p_.counters[i] = {};
    }
    __syncthreads();
  }

  TLX_DEVICE void write_outer_gaps() const {
    const OuterGaps outer = outer_gaps(p_);
    const int front = gap_pieces(outer.front_end);
    const int pieces = front + gap_pieces(p_.out_rows - outer.back_first);
    const int step = static_cast<int>(gridDim.x) * kPlanThreads;
    for (int i = static_cast<int>(blockIdx.x) * kPlanThreads + thread_; i < pieces; i += step) {
      if (i < front) {
        put_gap(i, i * kGapRows, outer.front_end);
      } else {
        put_gap(i, outer.back_first + (i - front) * kGapRows, p_.out_rows);
      }
    }
  }

  static constexpr int kMostSum = (1 << 30) - 1;

  const PlanArguments& p_;
  PlanMemory& m_;
  const int section_;  // sequences that are looked at together
  const PlanRules rules_;
  const int thread_;
  const int warp_;
  const u32 lane_;
  // Of this thread's sequence of the section.
  bool present_ = false, works_ = false;
  SequenceRows rows_{};
  int gap_first_ = 0, gap_end_ = 0;
};

template <int kMask>
__global__ void __launch_bounds__(kPlanThreads, 1) plan(const __grid_constant__ PlanArguments p) {
  __shared__ PlanMemory shared;
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
  PlanBlock<kMask>(p, shared).run();
}

}  // namespace jfa::kernels
