// One thin function per PTX instruction, except wgmma (wgmma.h) and TMA (tma.h). Each names the
// instruction, the architecture it needs and the section of the PTX ISA that defines it. Addresses
// in shared memory are 32-bit (shared_address()).
#pragma once

#include "tlx/base.h"

namespace jfa::tlx::ptx {

// cvta.to.shared.u64 — generic to shared address; a constant for the beginning of shared memory.
// (Data Movement: cvta)
TLX_DEVICE u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// The object at a shared address, which takes half the registers of a pointer. It is found from the
// beginning of dynamic shared memory, so that the compiler sees ld.shared and st.shared in its
// uses: generic accesses take twice as long.
extern __shared__ __align__(1024) char dynamic_shared_memory[];
template <typename Value>
TLX_DEVICE Value* shared_pointer(u32 address) {
  const u32 begin = shared_address(dynamic_shared_memory);
  return reinterpret_cast<Value*>(dynamic_shared_memory + (address - begin));
}

// ---- mbarrier: sm_90 (Parallel Synchronization: mbarrier)

// mbarrier.init.shared::cta.b64 [addr], count;
TLX_DEVICE void mbarrier_init(u32 barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

// mbarrier.arrive.release.cta.shared::cta.b64 _, [addr];
TLX_DEVICE void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [addr], bytes;
TLX_DEVICE void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
               "r"(bytes)
               : "memory");
}

// mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [addr], parity, hint; — in a loop: it may
// return false early.
TLX_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "wait_loop:\n"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1, 0x989680;\n"
      "@done bra wait_done;\n"
      "bra wait_loop;\n"
      "wait_done:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// fence.mbarrier_init.release.cluster; sm_90 — makes mbarrier.init visible to the async proxy and
// the cluster.
TLX_DEVICE void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// fence.proxy.async.shared::cta; sm_90 — orders this thread's ordinary shared-memory accesses
// before async-proxy ones.
TLX_DEVICE void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- asynchronous copies of a thread: sm_80 (Data Movement: cp.async)

// cp.async.cg.shared.global [dst], [src], 16; — 16 bytes, both addresses multiples of 16.
TLX_DEVICE void cp_async_16(u32 destination, const void* source) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(destination), "l"(source)
               : "memory");
}

// cp.async.mbarrier.arrive.noinc.shared::cta.b64 [addr]; — arrives once all cp.async of this thread
// so far have been done.
TLX_DEVICE void cp_async_mbarrier_arrive(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// ---- atomics (Parallel Synchronization: atom)

// atom.acq_rel.gpu.global.add.u32 — returns the old value.
TLX_DEVICE u32 atomic_add_acq_rel(u32* address, u32 value) {
  u32 old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(address), "r"(value)
               : "memory");
  return old;
}

// ---- named barriers (Parallel Synchronization: barrier)

// bar.sync id, threads;
TLX_DEVICE void bar_sync(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// bar.arrive id, threads;
TLX_DEVICE void bar_arrive(u32 id, u32 threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// bar.red.or.pred p, id, threads, q; — synchronises, and tells all threads whether any had `value`.
TLX_DEVICE bool bar_any(u32 id, u32 threads, bool value) {
  u32 result;
  asm volatile(
      "{\n"
      ".reg .pred p, q;\n"
      "setp.ne.u32 q, %3, 0;\n"
      "bar.red.or.pred p, %1, %2, q;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(result)
      : "r"(id), "r"(threads), "r"(static_cast<u32>(value))
      : "memory");
  return result != 0;
}

// ---- warps

// elect.sync _|p, 0xffffffff; sm_90 — true in one lane of the warp. (Parallel Synchronization:
// elect.sync)
TLX_DEVICE bool elect_one() {
  u32 elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(elected));
  return elected != 0;
}

// bar.warp.sync 0xffffffff;
TLX_DEVICE void warp_sync() {
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

// bar.warp.sync with a member mask that depends on `value` (which must not be negative): all
// arithmetic that leads to `value` is done before anything that follows in program order. The
// assembler otherwise sinks independent arithmetic below a wgmma.wait_group, and what was written
// as overlapping a matrix product then runs after it.
TLX_DEVICE void complete_before_next(float value) {
  asm volatile(
      "{\n"
      ".reg .pred negative;\n"
      ".reg .b32 mask;\n"
      "setp.lt.f32 negative, %0, 0f00000000;\n"
      "selp.b32 mask, 0x0fffffff, 0xffffffff, negative;\n"
      "bar.warp.sync mask;\n"
      "}\n" ::"f"(value)
      : "memory");
}

// vote.sync.any.pred p, q, 0xffffffff;
TLX_DEVICE bool any(bool value) {
  u32 result;
  asm volatile(
      "{\n"
      ".reg .pred p, q;\n"
      "setp.ne.u32 q, %1, 0;\n"
      "vote.sync.any.pred p, q, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(result)
      : "r"(static_cast<u32>(value)));
  return result != 0;
}

// shfl.sync.bfly.b32 — the value of the lane whose index differs in the bits of `mask`. (Data
// Movement: shfl.sync)
TLX_DEVICE float shuffle_xor(float value, u32 mask) {
  float other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
               : "=f"(other)
               : "f"(value), "r"(mask));
  return other;
}

// shfl.sync.idx.b32 — the value of lane `source`.
TLX_DEVICE i32 shuffle(i32 value, u32 source) {
  i32 other;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;"
               : "=r"(other)
               : "r"(value), "r"(source));
  return other;
}

// Tells the compiler that a value is the same in all lanes, which it cannot see through loads and
// loops: it may then live in a uniform register. Measured on the attention loop: 4 register moves
// less for each matrix product.
TLX_DEVICE u32 uniform(u32 value) {
  return static_cast<u32>(shuffle(static_cast<i32>(value), 0));
}

// redux.sync.{min,max}.s32 — over the warp, sm_80. (Parallel Synchronization: redux.sync)
TLX_DEVICE i32 warp_min(i32 value) {
  i32 result;
  asm volatile("redux.sync.min.s32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(value));
  return result;
}
TLX_DEVICE i32 warp_max(i32 value) {
  i32 result;
  asm volatile("redux.sync.max.s32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(value));
  return result;
}

// setmaxnreg.inc/dec.sync.aligned.u32 n; sm_90a — registers a thread of this warpgroup may use.
// (Miscellaneous: setmaxnreg)
template <u32 kRegisters>
TLX_DEVICE void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <u32 kRegisters>
TLX_DEVICE void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ---- programmatic dependent launch: sm_90 (Parallel Synchronization: griddepcontrol)

TLX_DEVICE void griddepcontrol_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
TLX_DEVICE void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// ---- shared-memory matrix stores: sm_90 (Data Movement: stmatrix)

// stmatrix.sync.aligned.m8n8.x4.shared.b16 [addr], {r0, r1, r2, r3};
TLX_DEVICE void stmatrix_x4(u32 address, u32 r0, u32 r1, u32 r2, u32 r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(r0), "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}

// ---- arithmetic

// max.f32 — NaN loses. (Floating Point: max)
TLX_DEVICE float max(float a, float b) {
  return fmaxf(a, b);
}

// ex2.approx.ftz.f32 — 2^x, at most 2 ulp; ex2(−∞) = +0. (Floating Point: ex2)
TLX_DEVICE float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// lg2.approx.ftz.f32 — log2(x). (Floating Point: lg2)
TLX_DEVICE float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// rcp.approx.ftz.f32 — 1 / x, at most 1 ulp. (Floating Point: rcp)
TLX_DEVICE float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// cvt.rn.{bf16x2,f16x2}.f32 — packs {low, high} into one register. (Data Movement: cvt)
template <typename Element>
TLX_DEVICE u32 pack(float low, float high) {
  u32 packed;
  if constexpr (is_same<Element, bf16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  }
  return packed;
}

}  // namespace jfa::tlx::ptx
