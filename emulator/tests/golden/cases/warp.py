"""Instructions in which lanes of a warp see each other, and special registers."""

from __future__ import annotations

from collections.abc import Iterator

from .case import Buffer, Case, Input, entry, identifier

FULL = 0xFFFFFFFF


def warp_case(name: str, body: str, block: int = 64, words: int = 1) -> Case:
    """`body` turns the random words %a and %b into `words` words of output: %d, %d2."""
    kernel = "k_" + identifier(name)
    store = "".join(
        f"st.global.b32 [%out+{4 * i}], {r};" for i, r in enumerate(("%d", "%d2")[:words])
    )
    ptx = entry(
        kernel,
        [".u64 in", ".u64 out"],
        f"""
.reg .b64 %in, %out; .reg .b32 %a, %b, %d, %d2, %t, %lane, %x, %y; .reg .pred %p, %q, %r;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
mov.u32 %t, %tid.x; mov.u32 %lane, %laneid; mov.u32 %d, 0; mov.u32 %d2, 0;
mad.wide.u32 %in, %t, 16, %in; mad.wide.u32 %out, %t, {4 * words}, %out;
ld.global.b32 %a, [%in]; ld.global.b32 %b, [%in+8];
{body}
{store}""",
    )
    arguments = [
        Buffer(16 * block, Input("operands:u32,u32", block, "warp")),
        Buffer(4 * words * block, output=True),
    ]
    return Case(name, kernel, ptx, list(arguments), block=block)


def shuffle_cases() -> Iterator[Case]:
    for mode in ("idx", "up", "down", "bfly"):
        for lane_argument, clamp in (
            ("1", 0x1F),
            ("5", 0x1F),
            ("16", 0x1F),
            ("3", 0x1807),
            ("9", 0x1010),
            ("%b", 0x0C1F),
        ):
            clamp_value = 0 if mode == "up" and clamp == 0x1F else clamp
            yield warp_case(
                f"shfl.sync.{mode}.b32/{lane_argument}/{clamp:x}",
                f"and.b32 %b, %b, 31; shfl.sync.{mode}.b32 %d|%p, %a, {lane_argument}, "
                f"{clamp_value}, 0xffffffff;"
                "selp.b32 %d2, 1, 0, %p;",
                words=2,
            )
        yield warp_case(
            f"shfl.sync.{mode}.b32/half",
            f"and.b32 %x, %lane, 1; setp.eq.u32 %q, %x, 0; @!%q bra SKIP;"
            f"shfl.sync.{mode}.b32 %d|%p, %a, 2, {0 if mode == 'up' else 31}, 0x55555555;"
            "selp.b32 %d2, 1, 0, %p; SKIP:",
            words=2,
        )


def vote_cases() -> Iterator[Case]:
    for source, condition in (("some", "%a, %b"), ("none", "%lane, %lane"), ("all", "-1, %lane")):
        predicate = (
            f"setp.lt.s32 %p, {condition};" if source != "all" else "setp.ge.u32 %p, %lane, 0;"
        )
        for mode in ("all", "any", "uni"):
            yield warp_case(
                f"vote.sync.{mode}/{source}",
                f"{predicate} vote.sync.{mode}.pred %q, %p, -1; selp.b32 %d, 1, 0, %q;",
            )
        yield warp_case(
            f"vote.sync.ballot/{source}", f"{predicate} vote.sync.ballot.b32 %d, %p, 0xffffffff;"
        )
    yield warp_case(
        "vote.sync.ballot/not", "setp.lt.s32 %p, %a, %b; vote.sync.ballot.b32 %d, !%p, 0xffffffff;"
    )
    yield warp_case(
        "vote.sync.ballot/half",
        "setp.lt.u32 %q, %lane, 12; @!%q bra SKIP; setp.lt.s32 %p, %a, %b;"
        "vote.sync.ballot.b32 %d, %p, 0xfff; SKIP:",
    )
    yield warp_case("activemask", "setp.lt.u32 %q, %lane, 7; @%q activemask.b32 %d;")


def match_cases() -> Iterator[Case]:
    yield warp_case("match.any.sync.b32", "and.b32 %a, %a, 3; match.any.sync.b32 %d, %a, -1;")
    yield warp_case(
        "match.all.sync.b32/different",
        "match.all.sync.b32 %d|%p, %a, -1; selp.b32 %d2, 1, 0, %p;",
        words=2,
    )
    yield warp_case(
        "match.all.sync.b32/same",
        "shr.u32 %a, %t, 5; match.all.sync.b32 %d|%p, %a, -1; selp.b32 %d2, 1, 0, %p;",
        words=2,
    )
    yield warp_case(
        "match.any.sync.b64",
        ".reg .b64 %w; and.b32 %a, %a, 1; mov.b64 %w, {0, %a}; match.any.sync.b64 %d, %w, -1;",
    )
    yield warp_case(
        "match.all.sync.b64",
        ".reg .b64 %w; mov.b64 %w, {%t, 7}; and.b64 %w, %w, 0x700000000;"
        "match.all.sync.b64 %d|%p, %w, -1; selp.b32 %d2, 1, 0, %p;",
        words=2,
    )


def reduction_cases() -> Iterator[Case]:
    for op in ("add", "min", "max"):
        for kind in ("u32", "s32"):
            yield warp_case(
                f"redux.sync.{op}.{kind}", f"redux.sync.{op}.{kind} %d, %a, 0xffffffff;"
            )
    for op in ("and", "or", "xor"):
        yield warp_case(f"redux.sync.{op}.b32", f"redux.sync.{op}.b32 %d, %a, 0xffffffff;")
    yield warp_case(
        "redux.sync.add.s32/half",
        "setp.ge.u32 %q, %lane, 20; @!%q bra SKIP; redux.sync.add.s32 %d, %a, 0xfff00000; SKIP:",
    )
    yield warp_case(
        "elect.sync/all", "elect.sync %d|%p, 0xffffffff; selp.b32 %d2, 1, 0, %p;", words=2
    )
    yield warp_case(
        "elect.sync/some",
        "setp.ge.u32 %q, %lane, 9; @!%q bra SKIP; elect.sync %d|%p, 0xfffffe00;"
        " selp.b32 %d2, 1, 0, %p; SKIP:",
        words=2,
    )


def register_cases() -> Iterator[Case]:
    for name in (
        "tid.x",
        "tid.y",
        "ntid.x",
        "ntid.z",
        "ctaid.x",
        "nctaid.x",
        "laneid",
        "lanemask_eq",
        "lanemask_lt",
        "lanemask_le",
        "lanemask_ge",
        "lanemask_gt",
        "cluster_ctaid.x",
        "cluster_nctaid.x",
        "cluster_ctarank",
        "cluster_nctarank",
        "clusterid.x",
        "nclusterid.x",
        "total_smem_size",
        "dynamic_smem_size",
    ):
        yield warp_case(f"mov.u32 %{name}", f"mov.u32 %d, %{name};")
    yield warp_case(
        "mov.pred %is_explicit_cluster", "mov.pred %p, %is_explicit_cluster; selp.b32 %d, 1, 0, %p;"
    )
    yield warp_case(
        "mov.b64 pack",
        ".reg .b64 %w; .reg .b16 %h, %l; mov.b64 %w, {%a, %b}; mov.b64 {%x, %y}, %w;"
        "mov.b32 {%l, %h}, %y; mov.b32 %d, {%h, %l}; xor.b32 %d, %d, %x;",
    )
    yield warp_case(
        "mov.b128 pack",
        ".reg .b128 %w; .reg .b64 %l, %h; mov.b64 %l, {%a, %b}; mov.b64 %h, {%t, %a};"
        "mov.b128 %w, {%l, %h}; mov.b128 {%h, %l}, %w; mov.b64 {%x, %y}, %l; xor.b32 %d, %x, %y;",
    )


GROUPS = {
    "shuffle": shuffle_cases,
    "vote": vote_cases,
    "match": match_cases,
    "redux": reduction_cases,
    "registers": register_cases,
}
