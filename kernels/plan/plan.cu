// The plan kernel: one cluster turns offsets into the work list of a batch.
//
// Each CTA takes a range of sequences and looks at them twice: the first time it counts tiles by
// work class, the second time it knows where the tiles of each class begin and writes them. Tiles
// of one class are in the order CTA, warp, batch, so that the same batch always gives the same
// list.
//
// Sequences are looked at in chunks of 32, a lane a sequence, by as many warps as there are chunks:
//   read    offsets → rows of every sequence, in shared memory
//   follow  where may a tile not reach over the beginning of a sequence?
//   chain   from every lane: which sequences begin tiles if this one does?
//   count   tiles of every sequence
// Then tiles are spread over all threads, a thread a tile.
#include "plan/sequence.h"
#include "plan/tile_keys.h"
#include "tlx/cluster.h"
#include "tlx/ptx.h"

namespace jfa::kernels {

using namespace jfa::tlx;

constexpr u32 kAllLanes = 0xffffffff;
constexpr int kLanes = static_cast<int>(kWarpThreads);
static_assert(kPlanChunk == kLanes, "a lane a sequence of a chunk");
constexpr int kGapClass = kTileClasses;

// What the CTAs tell each other.
struct PlanCounts {
  int tiles[kPlanClasses];  // of a class
  int longest_keys;
};

struct PlanMemory {
  PlanCounts received[kMostPlanBlocks];  // by rank; written by the cluster
  int warp_sums[kMostPlanThreads / kLanes];
  int longest_keys;          // of this CTA
  int cluster_longest_keys;  // of all
};

// Dynamic shared memory, as long as plan_launch() says.
struct PlanArrays {
  // By sequence of the section.
  int *q_first, *q_length, *k_first, *k_length;
  int* next;       // first the sequence that begins the next tile, then the sequences of the tile
  int* tiles_end;  // first the lanes reached, a bit each, then tiles of the chunk up to here
  // By chunk, and one that nothing is in.
  u32* breaks;     // bit lane: no tile reaches over the beginning of this sequence
  u32* works;      // bit lane: the sequence has rows and keys
  int* chunk_end;  // tiles of the section up to this chunk
  unsigned char (*exit_lane)[kPlanChunk];  // where the next chunk is entered, by entry lane
  int (*taken)[kPlanClasses];              // by warp: first counts, then the next places

  TLX_DEVICE PlanArrays(int* memory, int section) {
    const int chunks = section / kPlanChunk + 1;
    const auto part = [&](int words) {
      int* const begin = memory;
      memory += words;
      return begin;
    };
    q_first = part(section);
    q_length = part(section);
    k_first = part(section);
    k_length = part(section);
    next = part(section);
    tiles_end = part(section);
    breaks = reinterpret_cast<u32*>(part(chunks));
    works = reinterpret_cast<u32*>(part(chunks));
    chunk_end = part(chunks);
    exit_lane = reinterpret_cast<unsigned char(*)[kPlanChunk]>(part(chunks * kPlanChunk / 4));
    taken = reinterpret_cast<int(*)[kPlanClasses]>(memory);
  }
};

template <int kMask>
class PlanBlock {
 public:
  TLX_DEVICE PlanBlock(const PlanArguments& arguments, PlanMemory& memory, int* arrays)
      : p_(arguments),
        m_(memory),
        a_(arrays, arguments.section),
        rules_(device_rules(arguments)),
        threads_(static_cast<int>(blockDim.x)),
        thread_(static_cast<int>(threadIdx.x)),
        warps_(threads_ / kLanes),
        warp_(thread_ / kLanes),
        lane_(thread_ % kLanes),
        sections_(
            ceil_div(ceil_div(arguments.batch, arguments.section), static_cast<int>(gridDim.x))) {}

  TLX_DEVICE void run() {
    ptx::cluster_arrive();  // this CTA has started
    for (int c = lane_; c < kPlanClasses; c += kLanes) a_.taken[warp_][c] = 0;
    if (thread_ == 0) m_.longest_keys = 0;
    ptx::griddepcontrol_wait();
    __syncthreads();
    pass<false>();
    exchange();
    pass<true>();
    write_outer_gaps();
  }

 private:
  template <bool kWrite>
  TLX_DEVICE void pass() {
    const int first = static_cast<int>(blockIdx.x) * sections_;
    for (int i = first; i < first + sections_ && i * p_.section < p_.batch; ++i) {
      begin_ = i * p_.section;
      count_ = smaller(p_.batch - begin_, p_.section);
      chunks_ = ceil_div(count_, kPlanChunk);
      // The only section of a CTA is still there the second time.
      if (!kWrite || sections_ > 1) {
        read<kWrite>();
        find_tiles();
      } else if (gaps_) {
        for (int chunk = warp_; chunk < chunks_; chunk += warps_) {
          const int s = chunk * kPlanChunk + lane_;
          put_gaps<true>(s < count_ ? sequence_of(p_, begin_ + s) : Sequence{});
        }
      }
      put_tiles<kWrite>();
      if (sections_ > 1) __syncthreads();
    }
  }

  template <bool kWrite>
  TLX_DEVICE void read() {
    int longest = 0;
    for (int chunk = warp_; chunk < chunks_; chunk += warps_) {
      const int s = chunk * kPlanChunk + lane_;
      Sequence sequence{};
      if (s < count_) sequence = sequence_of(p_, begin_ + s);
      const SequenceRows& rows = sequence.rows;
      a_.q_first[s] = rows.q_first;
      a_.q_length[s] = rows.q_length;
      a_.k_first[s] = rows.k_first;
      a_.k_length[s] = rows.k_length;
      const u32 works = __ballot_sync(kAllLanes, has_work(rows.q_length, rows.k_length));
      if (lane_ == 0) a_.works[chunk] = works;
      if (!kWrite && s < count_) p_.sequences[begin_ + s] = rows;
      longest = larger(longest, rows.k_length);
      put_gaps<kWrite>(sequence);
    }
    if (!kWrite && warp_ < chunks_) {
      longest = ptx::warp_max(longest);
      if (lane_ == 0) atomicMax(&m_.longest_keys, longest);
    }
    if (thread_ == 0) {
      a_.breaks[chunks_] = kAllLanes;
      a_.works[chunks_] = 0;
    }
    __syncthreads();
  }

  // The rows of out that a lane's sequence owns and no tile has.
  template <bool kWrite>
  TLX_DEVICE void put_gaps(const Sequence& sequence) {
    const SequenceRows& rows = sequence.rows;
    const int first = rows.out_first + (rows.k_length > 0 ? rows.q_length : 0);
    const int pieces = gap_pieces(sequence.out_end - first);
    if (!ptx::any(pieces > 0)) return;
    gaps_ = true;
    const int to_here = warp_sum_to_here(pieces);
    const int place = a_.taken[warp_][kGapClass] + to_here - pieces;
    __syncwarp();
    if (lane_ == kLanes - 1) a_.taken[warp_][kGapClass] += to_here;
    __syncwarp();
    if constexpr (kWrite) {
      for (int i = 0; i < pieces; ++i) put_gap(place + i, first + i * kGapRows, sequence.out_end);
    }
  }
  TLX_DEVICE void put_gap(int place, int first, int end) const {
    if (place < p_.most_gaps) p_.gaps[place] = {first, smaller(end - first, kGapRows)};
  }

  // Fills next, tiles_end and chunk_end: how the rows of the section make tiles.
  TLX_DEVICE void find_tiles() {
    for (int chunk = warp_; chunk < chunks_; chunk += warps_) {
      const u32 breaks = __ballot_sync(kAllLanes, breaks_before(chunk * kPlanChunk + lane_));
      if (lane_ == 0) a_.breaks[chunk] = breaks;
    }
    __syncthreads();
    for (int chunk = warp_; chunk < chunks_; chunk += warps_) chain(chunk);
    __syncthreads();
    for (int chunk = warp_; chunk < chunks_; chunk += warps_) count_tiles(chunk);
    __syncthreads();
    if (warp_ == 0) {
      int before = 0;
      for (int first = 0; first < chunks_; first += kLanes) {
        const int chunk = first + lane_;
        const int end =
            smaller(before + warp_sum_to_here(chunk < chunks_ ? a_.chunk_end[chunk] : 0), kMostSum);
        if (chunk < chunks_) a_.chunk_end[chunk] = end;
        before = __shfl_sync(kAllLanes, end, kLanes - 1);
      }
    }
    __syncthreads();
  }

  TLX_DEVICE bool may_share(int s) const {
    return kernels::may_share(rules_, a_.q_length[s], a_.k_length[s]);
  }
  TLX_DEVICE SequenceRows rows_of(int s) const {
    const int q_first = a_.q_first[s];
    return {q_first,
            a_.q_length[s],
            a_.k_first[s],
            a_.k_length[s],
            out_first_of(p_, begin_ + s, q_first),
            {}};
  }
  TLX_DEVICE bool breaks_before(int s) const {
    if (s >= count_ || s % rules_.pack_section == 0 || !may_share(s)) return true;
    return !follows(rows_of(s - 1), rows_of(s));
  }

  // The 64 bits of sequences from `s` on.
  TLX_DEVICE static u64 bits_from(const u32* words, int s) {
    const u32* const word = words + s / kPlanChunk;
    return (u64{word[1]} << 32 | word[0]) >> (s % kPlanChunk);
  }
  TLX_DEVICE bool works(int s) const { return (bits_from(a_.works, s) & 1) != 0; }

  // The first sequence that no longer fits the tile that begins with `s`.
  TLX_DEVICE int end_of_tile(int s) const {
    const u32 breaks = static_cast<u32>(bits_from(a_.breaks, s) >> 1);
    const int row = a_.q_first[s];
    int low = s + 1;
    int high = low + (breaks != 0 ? __ffs(breaks) - 1 : kPackedSequences - 1);
    while (low < high) {
      const int middle = (low + high) / 2;
      if (a_.q_first[middle] + a_.q_length[middle] - row > rules_.pack_rows) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  // If a tile begins at `s`, the next one begins at `next`. What begins tiles if a lane's sequence
  // does, and where the next chunk is entered then, is found by doubling the steps.
  TLX_DEVICE void chain(int chunk) {
    const int s = chunk * kPlanChunk + lane_;
    const int next = works(s) && may_share(s) ? end_of_tile(s) : s + 1;
    int jump = next - chunk * kPlanChunk;
    u32 reached = 1U << lane_;
    for (int step = 1; step < kPlanChunk; step *= 2) {
      const u32 reached_there = __shfl_sync(kAllLanes, reached, jump);
      const int jump_there = __shfl_sync(kAllLanes, jump, jump);
      if (jump < kPlanChunk) {
        reached |= reached_there;
        jump = jump_there;
      }
    }
    a_.next[s] = next;
    a_.tiles_end[s] = static_cast<int>(reached);
    a_.exit_lane[chunk][lane_] = static_cast<unsigned char>(jump - kPlanChunk);
  }

  // Follows the tiles from the beginning of the pack section to this chunk and counts its own.
  TLX_DEVICE void count_tiles(int chunk) {
    const int s = chunk * kPlanChunk + lane_;
    int entry = 0;
    for (int c = chunk - chunk % (rules_.pack_section / kPlanChunk); c < chunk; ++c)
      entry = a_.exit_lane[c][entry];
    const u32 begins = static_cast<u32>(a_.tiles_end[chunk * kPlanChunk + entry]);
    int tiles = 0;
    if ((begins >> lane_ & 1) != 0 && works(s)) {
      const bool shares = may_share(s);
      tiles = shares ? 1 : tiles_of_rows(rules_, a_.q_length[s]);
      // Sequences up to the last one with work before the next tile.
      const u64 working = bits_from(a_.works, s) & ((u64{1} << (a_.next[s] - s)) - 1);
      a_.next[s] = shares ? 64 - __clzll(working) : 1;
    }
    const int to_here = warp_sum_to_here(tiles);
    __syncwarp();  // all lanes have read what tiles_end held
    a_.tiles_end[s] = to_here;
    if (lane_ == kLanes - 1) a_.chunk_end[chunk] = to_here;
  }

  // Sums stay below 2^30, whatever the offsets.
  TLX_DEVICE int warp_sum_to_here(int value) const {
    for (int step = 1; step < kLanes; step *= 2) {
      const int other = __shfl_up_sync(kAllLanes, value, step);
      if (lane_ >= step) value = smaller(value + other, kMostSum);
    }
    return value;
  }

  // Every tile of the section goes to its place.
  template <bool kWrite>
  TLX_DEVICE void put_tiles() {
    const int tiles = a_.chunk_end[chunks_ - 1];
    // A warp takes neighbouring tiles: they are likely to share keys.
    const int rounds = ceil_div(tiles, threads_);
    const bool keeps = sections_ == 1 && rounds == 1;  // for the second time
    for (int round = 0; round < rounds; ++round) {
      const int index = (warp_ * rounds + round) * kLanes + lane_;
      const bool present = index < tiles;
      if (!ptx::any(present)) break;
      if (!(kWrite && keeps)) {
        class_ = -1;
        if (present) {
          tile_ = tile_at(index);
          class_ = tile_class(p_, tile_);
        }
      }
      const int place = take(class_, present);
      if (kWrite && present && place < p_.most_tiles) p_.tiles[place] = tile_;
    }
  }

  // The first of `count` ascending ends that lies beyond `index`.
  TLX_DEVICE static int first_beyond(const int* ends, int count, int index) {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (ends[middle] > index) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  TLX_DEVICE TileWork tile_at(int index) const {
    const int chunk = first_beyond(a_.chunk_end, chunks_, index);
    if (chunk > 0) index -= a_.chunk_end[chunk - 1];
    const int in_chunk = first_beyond(a_.tiles_end + chunk * kPlanChunk, kPlanChunk, index);
    const int s = chunk * kPlanChunk + in_chunk;
    const int before = in_chunk > 0 ? a_.tiles_end[s - 1] : 0;
    const int tiles = a_.tiles_end[s] - before;
    index -= before;
    const SequenceRows rows = rows_of(s);
    TileWork tile{};
    tile.sequence = begin_ + s;
    tile.sequences = a_.next[s];
    tile.q_length = rows.q_length;
    tile.k_length = rows.k_length;
    tile.k_first = rows.k_first;
    if (tile.sequences > 1) {
      // The rows see few blocks of keys in all: no bounds are looked for.
      const int last = s + tile.sequences - 1;
      tile.rows = a_.q_first[last] + a_.q_length[last] - rows.q_first;
      tile.k_end = a_.k_first[last] + a_.k_length[last] - rows.k_first;
      tile.gap_begin = tile.gap_end = tile.k_end;
    } else {
      const RowRange range = cut(rules_, rows.q_length, tile_at_place(rules_, tiles, index));
      tile.q_offset = range.first;
      tile.rows = range.rows;
    }
    tile.q_first = rows.q_first + tile.q_offset;
    tile.out_first = rows.out_first + tile.q_offset;
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

  // The next place of class `c` in this warp's part of the list; all lanes take part.
  TLX_DEVICE int take(int c, bool present) {
    const u32 same = __match_any_sync(kAllLanes, c);
    const int leader = __ffs(same) - 1;
    int place = 0;
    if (present && lane_ == leader) {
      place = a_.taken[warp_][c];
      a_.taken[warp_][c] = place + __popc(same);
    }
    __syncwarp();
    return __shfl_sync(kAllLanes, place, leader) + __popc(same & ((1U << lane_) - 1));
  }

  // Turns counts into places: classes follow each other, in a class the CTAs, in a CTA its warps.
  TLX_DEVICE void exchange() {
    const int c = thread_;  // a thread a class, and one for the longest sequence
    const int ctas = static_cast<int>(gridDim.x), rank = static_cast<int>(blockIdx.x);
    __syncthreads();
    ptx::cluster_wait();  // all CTAs have started
    if (c <= kPlanClasses) {
      int total = m_.longest_keys;
      if (c < kPlanClasses) {
        total = 0;
        for (int warp = 0; warp < warps_; ++warp) total += a_.taken[warp][c];
      }
      PlanCounts& slot = m_.received[rank];
      const u32 address =
          ptx::shared_address(c < kPlanClasses ? &slot.tiles[c] : &slot.longest_keys);
      for (int cta = 0; cta < ctas; ++cta)
        ptx::store_to_cta(address, static_cast<u32>(cta), static_cast<u32>(total));
    }
    ptx::cluster_arrive();
    ptx::cluster_wait();
    int before = 0, all = 0;  // of the CTAs before this one, of all
    if (c < kPlanClasses) {
      for (int cta = 0; cta < ctas; ++cta) {
        const int tiles = m_.received[cta].tiles[c];
        if (cta < rank) before += tiles;
        all += tiles;
      }
    } else if (c == kPlanClasses) {
      int longest = 0;
      for (int cta = 0; cta < ctas; ++cta) longest = larger(longest, m_.received[cta].longest_keys);
      m_.cluster_longest_keys = longest;
    }
    // Classes of tiles follow each other; gaps are a list of their own.
    int classes_to_here = warp_sum_to_here(c < kTileClasses ? all : 0);
    if (lane_ == kLanes - 1) m_.warp_sums[warp_] = classes_to_here;
    __syncthreads();
    for (int warp = 0; warp < smaller(warp_, kTileClasses / kLanes); ++warp)
      classes_to_here = smaller(classes_to_here + m_.warp_sums[warp], kMostSum);
    if (c < kPlanClasses) {
      int place = before + (c < kTileClasses ? classes_to_here - all : 0);
      for (int warp = 0; warp < warps_; ++warp) {
        const int count = a_.taken[warp][c];
        a_.taken[warp][c] = place;
        place += count;
      }
    }
    hole_pieces_ = 0;
    for (int cta = 0; cta < ctas; ++cta) hole_pieces_ += m_.received[cta].tiles[kGapClass];
    if (rank == 0) {
      const int tiles = smaller(classes_to_here, p_.most_tiles);
      const int keys = m_.cluster_longest_keys;
      if (c == class_of_work(ceil_div(keys, p_.key_block))) p_.header->long_tiles = tiles;
      if (c == kTileClasses - 1) p_.header->tiles = tiles;
      if (c == kPlanClasses) p_.header->longest_keys = keys;
      for (int i = thread_; i < p_.counter_slots; i += threads_) p_.counters[i] = {};
    }
    __syncthreads();
  }

  // Rows of out in front of all sequences and behind them; their pieces follow those of holes.
  TLX_DEVICE void write_outer_gaps() const {
    const OuterGaps outer = outer_gaps(p_);
    const int front = gap_pieces(outer.front);
    const int pieces = front + gap_pieces(p_.out_rows - outer.back);
    if (blockIdx.x == 0 && thread_ == 0)
      p_.header->gaps = smaller(hole_pieces_ + pieces, p_.most_gaps);
    const int step = static_cast<int>(gridDim.x) * threads_;
    for (int i = static_cast<int>(blockIdx.x) * threads_ + thread_; i < pieces; i += step) {
      if (i < front) {
        put_gap(hole_pieces_ + i, i * kGapRows, outer.front);
      } else {
        put_gap(hole_pieces_ + i, outer.back + (i - front) * kGapRows, p_.out_rows);
      }
    }
  }

  static constexpr int kMostSum = (1 << 30) - 1;

  const PlanArguments& p_;
  PlanMemory& m_;
  const PlanArrays a_;
  const PlanRules rules_;
  const int threads_, thread_, warps_, warp_, lane_;
  const int sections_;                      // that a CTA looks at one after the other
  int begin_ = 0, count_ = 0, chunks_ = 0;  // sequences and chunks of the section
  bool gaps_ = false;                       // whether this warp has seen rows that no tile has
  int hole_pieces_ = 0;
  TileWork tile_;  // of this thread, and its class
  int class_ = -1;
};

template <int kMask>
__global__ void __launch_bounds__(kMostPlanThreads, 1)
    plan(const __grid_constant__ PlanArguments p) {
  __shared__ PlanMemory memory;
  extern __shared__ int arrays[];
  ptx::griddepcontrol_launch_dependents();
  PlanBlock<kMask>(p, memory, arrays).run();
}

}  // namespace jfa::kernels
