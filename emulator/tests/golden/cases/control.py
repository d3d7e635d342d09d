"""Fences and hints without a visible effect, branches, calls, and edits of tensor maps."""

from __future__ import annotations

from collections.abc import Iterator

from .case import Argument, Buffer, Case, Compare, TensorMap, entry, identifier
from .tma import MAP_PARAMETER, TENSOR_BYTES, dense_map, tensor_input
from .warp import warp_case

FENCES = (
    "membar.cta",
    "membar.gl",
    "membar.sys",
    "fence.sc.cta",
    "fence.sc.cluster",
    "fence.sc.gpu",
    "fence.sc.sys",
    "fence.acq_rel.cta",
    "fence.acq_rel.cluster",
    "fence.acq_rel.gpu",
    "fence.acq_rel.sys",
    "fence.acquire.sync_restrict::shared::cluster.cluster",
    "fence.release.sync_restrict::shared::cta.cluster",
    "fence.mbarrier_init.release.cluster",
    "fence.proxy.alias",
    "fence.proxy.async",
    "fence.proxy.async.global",
    "fence.proxy.async.shared::cta",
    "fence.proxy.async.shared::cluster",
    "fence.proxy.tensormap::generic.release.cta",
    "fence.proxy.tensormap::generic.release.gpu",
    "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
    "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster",
    "nanosleep.u32 20",
    "bar.warp.sync 0xffffffff",
    "griddepcontrol.launch_dependents",
    "griddepcontrol.wait",
    "wgmma.fence.sync.aligned",
    "wgmma.commit_group.sync.aligned",
    "wgmma.wait_group.sync.aligned 0",
    "cp.async.commit_group",
    "cp.async.wait_group 0",
    "cp.async.wait_all",
    "cp.async.bulk.commit_group",
    "cp.async.bulk.wait_group 0",
    "cp.async.bulk.wait_group.read 0",
    "barrier.cluster.arrive.relaxed",
    "pmevent 1",
    "discard.global.L2 [%in], 128",
    "applypriority.global.L2::evict_normal [%in], 128",
    "fence.proxy.tensormap::generic.acquire.gpu [%in], 128",
)


def fence_cases() -> Iterator[Case]:
    for fence in FENCES:
        more = "barrier.cluster.wait;" if "cluster.arrive" in fence else ""
        # discard may change the data that it names: use what the thread has loaded before.
        yield warp_case(
            fence, f"mov.u32 %d, 11; ld.param.u64 %in, [in]; {fence}; {more}", block=128
        )


def register_cases() -> Iterator[Case]:
    for change in ("setmaxnreg.dec.sync.aligned.u32 64", "setmaxnreg.inc.sync.aligned.u32 240"):
        case = warp_case(change, f"{change}; add.u32 %d, %a, %b;", block=128)
        case.ptx = case.ptx.replace(") \n{", ") .maxntid 128, 1, 1 .minnctapersm 1\n{", 1)
        yield case


def branch_cases() -> Iterator[Case]:
    yield warp_case(
        "bra loop",
        "and.b32 %x, %a, 63; mov.u32 %d, 0; LOOP: add.u32 %d, %d, %x; sub.s32 %x, %x, 3;"
        " setp.gt.s32 %p, %x, 0; @%p bra LOOP;",
    )
    yield warp_case(
        "bra nested",
        "and.b32 %x, %a, 7; and.b32 %y, %b, 7; mov.u32 %d, 1; OUTER: mov.u32 %y, %x;"
        " INNER: mad.lo.u32 %d, %d, 5, %y;"
        "sub.s32 %y, %y, 1; setp.ge.s32 %p, %y, 0; @%p bra INNER; sub.s32 %x, %x, 1;"
        " setp.lt.s32 %q, %x, 0; @!%q bra OUTER;",
    )
    yield warp_case(
        "brx.idx",
        "and.b32 %x, %a, 3; TABLE: .branchtargets A, B, C, B; brx.idx %x, TABLE;"
        " A: mov.u32 %d, 10; bra.uni DONE;"
        "B: mov.u32 %d, 20; bra DONE; C: mov.u32 %d, 30; DONE: add.u32 %d, %d, %x;",
    )
    yield warp_case(
        "exit of some lanes",
        "st.global.b32 [%out], %lane; setp.lt.u32 %p, %lane, 9; @%p exit;"
        " vote.sync.ballot.b32 %d, 1, 0xfffffe00;",
    )
    yield warp_case(
        "nested scopes",
        "{ .reg .b32 %x; mov.u32 %x, 5; { .reg .b32 %x; mov.u32 %x, 6; add.u32 %d, %d, %x;"
        " } add.u32 %d, %d, %x; }",
    )
    call = warp_case(
        "call",
        "{ .param .b32 p0; .param .b32 p1; .param .b32 r0; st.param.b32 [p0], %a;"
        " st.param.b32 [p1], %b;"
        "call.uni (r0), mix, (p0, p1); ld.param.b32 %d, [r0]; }",
    )
    call.ptx = (
        ".func (.param .b32 r) mix(.param .b32 a, .param .b32 b)\n{ .reg .b32 %a, %b, %r;"
        " .reg .pred %p; ld.param.b32 %a, [a]; ld.param.b32 %b, [b];\n"
        "setp.lt.s32 %p, %a, %b; @%p sub.u32 %r, %b, %a; @!%p xor.b32 %r, %a, %b;"
        " st.param.b32 [r], %r; ret; }\n"
    ) + call.ptx
    yield call
    divergent = warp_case(
        "call by some lanes",
        "setp.gt.s32 %p, %a, %b; @!%p bra SKIP; { .param .b32 p0; .param .b32 r0;"
        " st.param.b32 [p0], %a;"
        "call (r0), triple, (p0); ld.param.b32 %d, [r0]; } SKIP:",
    )
    divergent.ptx = (
        ".func (.param .b32 r) triple(.param .b32 a)\n{ .reg .b32 %a; ld.param.b32 %a, [a];"
        " mad.lo.u32 %a, %a, 3, 0; st.param.b32 [r], %a; ret; }\n" + divergent.ptx
    )
    yield divergent
    table = warp_case(
        "const and global variables",
        ".reg .b64 %w; and.b32 %x, %a, 7; mul.wide.u32 %w, %x, 4; .reg .b64 %base;"
        " mov.u64 %base, table;"
        "add.u64 %base, %base, %w; ld.const.u32 %d, [%base]; mov.u64 %base, numbers;"
        " add.u64 %base, %base, %w;"
        "ld.global.u32 %y, [%base]; add.u32 %d, %d, %y; ld.global.u16 %y, [numbers+6];"
        " add.u32 %d, %d, %y;",
    )
    table.ptx = (
        ".const .align 4 .u32 table[8] = {1, 20, 300, 4000, 50000, 0xF00, 7, -8};\n"
        ".global .align 4 .b32 numbers[9] = {9, 8, 7, 6, 5, 4, 3, 2};\n"
    ) + table.ptx
    yield table


REPLACEMENTS = {
    "global_address": ("b64", ("0x7f1234567000",)),
    "rank": ("b32", ("0", "2", "4")),
    "box_dim": ("b32", ("8", "255")),
    "global_dim": ("b32", ("5", "0xFFFFFFFF")),
    "global_stride": ("b64", ("0x1230", "0x8000000010", "0xFFFFFFFFF0")),
    "element_stride": ("b32", ("1", "2", "8")),
    "elemtype": ("b32", tuple(str(i) for i in range(13))),
    "interleave_layout": ("b32", ("0", "1", "2")),
    "swizzle_mode": ("b32", ("0", "1", "2", "3")),
    "fill_mode": ("b32", ("0", "1")),
}
IMMEDIATE_FIELDS = ("elemtype", "interleave_layout", "swizzle_mode", "fill_mode")
ORDINALS = {"box_dim": 5, "global_dim": 5, "global_stride": 4, "element_stride": 5}


def replace_cases() -> Iterator[Case]:
    tensor = dense_map("bf16", (60, 10, 9, 4, 3), (32, 4, 4, 2, 1), swizzle=2)
    for field, (kind, values) in REPLACEMENTS.items():
        for value in values:
            for ordinal in range(ORDINALS[field]) if field in ORDINALS else (None,):
                yield _replace(tensor, field, kind, value, ordinal)


def _replace(tensor: TensorMap, field: str, kind: str, value: str, ordinal: int | None) -> Case:
    at = "" if ordinal is None else f"{ordinal}, "
    operand = value if field in IMMEDIATE_FIELDS else "%value"
    name = f"tensormap.replace.tile.{field}.shared::cta.b1024.{kind}/{at}{value}"
    kernel = "k_" + identifier(name)
    body = f"""
.shared .align 128 .b8 copy[128]; .reg .b64 %out, %map, %a; .reg .b32 %t, %x, %y;
.reg .{kind} %value; .reg .pred %q;
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %y, copy; mad.lo.u32 %y, %t, 4, %y;
mov.b64 %map, map; mad.wide.u32 %map, %t, 4, %map;
ld.param.b32 %x, [%map]; st.shared.b32 [%y], %x; bar.sync 0; setp.eq.u32 %q, %t, 0;
mov.{kind} %value, {value}; mov.u64 %a, copy;
@%q tensormap.replace.tile.{field}.shared::cta.b1024.{kind} [%a], {at}{operand};
bar.sync 0; ld.shared.b32 %x, [%y]; setp.lt.u32 %q, %t, 2; @%q mov.u32 %x, 0;
mad.wide.u32 %out, %t, 4, %out; st.global.b32 [%out], %x;"""
    if field == "global_address":  # words 0 and 1 hold the address, which is else of no interest
        body = body.replace("@%q mov.u32 %x, 0;", "")
    arguments: list[Argument] = [
        Buffer(TENSOR_BYTES, tensor_input("bf16")),
        Buffer(128, output=True),
        tensor,
    ]
    return Case(
        name,
        kernel,
        entry(kernel, [".u64 in", ".u64 out", MAP_PARAMETER], body),
        arguments,
        block=32,
        compare=Compare(),
    )


GROUPS = {
    "register_budget": register_cases,
    "fences": fence_cases,
    "branches": branch_cases,
    "tensormap_replace": replace_cases,
}
