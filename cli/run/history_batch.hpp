// The tensors of self-attention over some users' histories, jagged or padded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "events/histories.hpp"
#include "jfa/attention.hpp"
#include "run/settings.hpp"

namespace jfa::tool {

// Users [first, last) of some histories.
struct UserRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  std::int64_t count() const { return last - first; }
};

// Memory of one batch after the other: pages that are in place already, so that no run is timed
// with the page faults of its results.
class BatchMemory {
 public:
  void rewind() { next_ = 0; }
  std::byte* take(std::size_t bytes);  // valid until rewind() and take() again

 private:
  struct Block {
    std::unique_ptr<std::byte[]> data;
    std::size_t bytes = 0;
  };
  std::vector<Block> blocks_;
  std::size_t next_ = 0;
};

// Bytes of q, k, v, out, lse, d_out, d_q, d_k and d_v for one event.
double bytes_of_row(const AttentionShape& shape);

// q, k, v and d_out of an event are random but depend only on its item and the seed: a stand-in for
// a model's embeddings and projections that every batch and the reference can draw again.
class HistoryBatch {
 public:
  // rows 0: jagged. Else every history takes `rows` rows (dense layout); the rows behind it are 0,
  // and nothing tells the engine that they are padding. `results` is the type of out, lse and the
  // gradients (that of the inputs, lse: float32; or float64 for the reference), which start as NaN.
  // The tensors live in `memory` until its next batch.
  HistoryBatch(const Histories& histories, UserRange users, const AttentionShape& shape,
               std::uint64_t seed, std::int64_t rows, DType results, BatchMemory& memory);

  ForwardArgs forward() const;
  BackwardArgs backward() const;

  // The rows of one user (counted from the batch's first) in out, d_q, d_k or d_v.
  Tensor rows_of(const Tensor& tensor, std::int64_t user) const;

  double bytes() const { return bytes_; }  // of q, k, v, out, lse, d_out, d_q, d_k, d_v
  std::int64_t users() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }

 private:
  Tensor allocate(DType dtype, std::int64_t heads, std::int64_t dim, BatchMemory& memory);
  void fill(const Tensor& tensor, const Histories& histories, UserRange users, std::uint64_t seed,
            std::uint64_t stream) const;

  AttentionShape shape_;
  std::int64_t rows_;
  std::vector<std::int64_t> offsets_;  // [users + 1] from 0, histories without padding
  double bytes_ = 0;
  Tensor q_, k_, v_, out_, lse_, d_out_, d_q_, d_k_, d_v_;
};

}  // namespace jfa::tool
