// Clusters: CTAs that run at the same time and reach each other's shared memory.
#pragma once

#include "tlx/base.h"

namespace jfa::tlx::ptx {

// mov.u32 %cluster_ctarank; sm_90. (Special Registers)
TLX_DEVICE u32 cluster_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// barrier.cluster.arrive.release / wait.acquire; sm_90 — memory accesses before the arrival are
// visible behind the wait, in the whole cluster. (Parallel Synchronization: barrier.cluster)
TLX_DEVICE void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
TLX_DEVICE void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// mapa.shared::cluster.u32, st.shared::cluster.u32; sm_90 — writes the word that CTA `rank` has
// where this CTA has `address`, a shared address. Nobody waits for it but a cluster barrier. (Data
// Movement: mapa, st)
TLX_DEVICE void store_to_cta(u32 address, u32 rank, u32 value) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "st.shared::cluster.u32 [remote], %2;\n"
      "}\n" ::"r"(address),
      "r"(rank), "r"(value)
      : "memory");
}

// mapa.shared::cluster.u32, mbarrier.arrive.release.cta.shared::cluster.b64; sm_90 — arrives at the
// barrier that CTA `rank` has where this CTA has `barrier`. (Parallel Synchronization:
// mbarrier.arrive) For buffers that only asynchronous units touch: tensor core reads that this
// thread has waited for, copies that the other side issues. Memory that threads wrote themselves
// would need cluster scope, which is a MEMBAR.GPU: it took half the time of a matrix product.
TLX_DEVICE void mbarrier_arrive_at_cta(u32 barrier, u32 rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cta.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

}  // namespace jfa::tlx::ptx
