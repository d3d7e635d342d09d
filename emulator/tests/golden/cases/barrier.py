"""mbarriers and their states, named barriers, clusters: shared memory, multicast, arrives."""

from __future__ import annotations

from collections.abc import Iterator

from .case import Buffer, Case, Compare, TensorMap, entry, identifier
from .tma import (
    DUMP,
    MAP_ADDRESS,
    MAP_PARAMETER,
    PROLOGUE,
    SHARED_BYTES,
    TENSOR_BYTES,
    WAIT,
    dense_map,
    fill_shared,
    tensor_input,
)

# Thread 0 runs a sequence on the barrier and stores one word per observation.
OBSERVE = """
.shared .align 8 .b64 barrier; .reg .b64 %in, %out, %s1, %s2, %s3; .reg .b32 %t, %x, %b, %n;
.reg .pred %p, %q;
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; setp.ne.u32 %q, %t, 0; @%q bra END;
mov.u32 %b, barrier;
"""


class Script:
    """Builds a straight-line sequence of barrier operations and observations."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def run(self, text: str) -> Script:
        self.lines.append(text)
        return self

    def store(self, register: str = "%x") -> Script:
        self.lines.append(f"st.global.b32 [%out+{4 * self.count}], {register};")
        self.count += 1
        return self

    def pending(self, state: str) -> Script:
        return self.run(f"mbarrier.pending_count.b64 %x, {state};").store()

    def test(self, state: str) -> Script:
        return self.run(
            f"mbarrier.test_wait.shared::cta.b64 %p, [%b], {state}; selp.b32 %x, 1, 0, %p;"
        ).store()

    def parity(self, parity: int) -> Script:
        return self.run(
            f"mbarrier.test_wait.parity.shared::cta.b64 %p, [%b], {parity}; selp.b32 %x, 1, 0, %p;"
        ).store()

    def case(self, name: str) -> Case:
        kernel = "k_" + identifier(name.replace(" ", "_"))
        body = OBSERVE + "\n".join(self.lines) + "\nEND:"
        return Case(
            name,
            kernel,
            entry(kernel, [".u64 out"], body),
            [Buffer(4 * self.count, output=True)],
            block=32,
        )


def mbarrier_cases() -> Iterator[Case]:
    init = "mbarrier.init.shared::cta.b64 [%b], {};"
    script = Script().run(init.format(5)).parity(0).parity(1)
    for _ in range(5):
        script.run("mbarrier.arrive.shared::cta.b64 %s1, [%b];").pending("%s1").test("%s1").parity(
            0
        ).parity(1)
    yield script.case("mbarrier arrive until the phase completes")
    script = (
        Script()
        .run(init.format(6))
        .run("mbarrier.arrive.shared::cta.b64 %s1, [%b], 4;")
        .pending("%s1")
    )
    script.run("mbarrier.arrive_drop.shared::cta.b64 %s2, [%b];").pending("%s2").run(
        "mbarrier.arrive_drop.shared::cta.b64 %s3, [%b];"
    )
    script.pending("%s3").test("%s1").test("%s2").parity(0).parity(1)
    script.run("mbarrier.arrive.shared::cta.b64 %s1, [%b];").pending("%s1").run(
        "mbarrier.arrive.shared::cta.b64 %s1, [%b], 3;"
    )
    yield (
        script.pending("%s1")
        .test("%s1")
        .parity(0)
        .parity(1)
        .case("mbarrier arrive_drop lowers the next phase")
    )
    script = (
        Script()
        .run(init.format(2))
        .run("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 64;")
        .parity(0)
    )
    script.run("mbarrier.arrive.shared::cta.b64 %s1, [%b], 2;").pending("%s1").parity(0).test("%s1")
    script.run("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 48;").parity(0)
    script.run("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 16;").parity(0).parity(
        1
    ).test("%s1")
    yield script.case("mbarrier transaction count")
    script = (
        Script()
        .run(init.format(1))
        .run("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 32;")
        .parity(0)
    )
    script.run("mbarrier.arrive.expect_tx.shared::cta.b64 %s1, [%b], 32;").pending("%s1").parity(
        0
    ).parity(1).test("%s1")
    yield script.case("mbarrier complete before expect")
    script = (
        Script()
        .run(init.format(3))
        .run("mbarrier.arrive.noComplete.shared::cta.b64 %s1, [%b], 2;")
        .pending("%s1")
        .parity(0)
    )
    script.run("mbarrier.arrive_drop.expect_tx.shared::cta.b64 %s2, [%b], 16;").pending(
        "%s2"
    ).parity(0)
    script.run("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 16;").parity(0)
    script.run("mbarrier.arrive.shared::cta.b64 %s3, [%b];").pending("%s3").parity(1).run(
        "mbarrier.arrive.shared::cta.b64 %s3, [%b];"
    )
    yield script.pending("%s3").parity(1).case("mbarrier noComplete and arrive_drop.expect_tx")
    script = Script().run(init.format(1))
    for _ in range(4):
        script.run("mbarrier.arrive.release.cta.shared::cta.b64 %s1, [%b];").parity(0).parity(1)
        script.run(
            "mbarrier.try_wait.shared::cta.b64 %p, [%b], %s1; selp.b32 %x, 1, 0, %p;"
        ).store()
        script.run(
            "mbarrier.try_wait.acquire.cta.shared::cta.b64 %p, [%b], %s1, 100;"
            " selp.b32 %x, 1, 0, %p;"
        ).store()
    yield script.run("mbarrier.inval.shared::cta.b64 [%b];").case("mbarrier phases and try_wait")
    yield from _spellings()
    script = (
        Script()
        .run("mbarrier.init.b64 [%s3], 2;")
        .run("mbarrier.arrive.b64 %s1, [%s3];")
        .pending("%s1")
    )
    script.run(
        "mbarrier.arrive.b64 %s1, [%s3]; mbarrier.test_wait.b64 %p, [%s3], %s1;"
        " selp.b32 %x, 1, 0, %p;"
    ).store()
    case = script.case("mbarrier generic addresses")
    case.ptx = case.ptx.replace(
        "mov.u32 %b, barrier;", "mov.u64 %s3, barrier; cvta.shared.u64 %s3, %s3;"
    )
    yield case


def _spellings() -> Iterator[Case]:
    waits = ("", "acquire.cta.", "acquire.cluster.", "relaxed.cta.", "relaxed.cluster.")
    script = Script().run("mbarrier.init.shared::cta.b64 [%b], 1;")
    for phase, form in enumerate(waits):
        script.run("mbarrier.arrive.shared.b64 %s1, [%b];")
        for attempt, hint in (("try_wait", ""), ("try_wait", ", 1000"), ("test_wait", "")):
            wait = f"mbarrier.{attempt}.parity.{form}shared::cta.b64 %p, [%b], {phase % 2}{hint};"
            script.run(f"{wait} selp.b32 %x, 1, 0, %p;").store()
    yield script.case("mbarrier spellings of waits")
    script = Script().run("mbarrier.init.shared::cta.b64 [%b], 4;")
    for form in ("release.cta.", "release.cluster.", "relaxed.cta.", "relaxed.cluster."):
        script.run(f"mbarrier.arrive.{form}shared::cta.b64 %s1, [%b];").pending("%s1").parity(0)
    yield script.case("mbarrier spellings of arrives")


def named_barrier_cases() -> Iterator[Case]:
    head = (
        ".shared .b32 word[8]; .reg .b64 %out, %o; .reg .b32 %t, %x, %y, %w; .reg .pred %p, %q;"
        "ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; shr.u32 %w, %t, 5;"
        " mad.wide.u32 %o, %t, 4, %out; mov.u32 %x, 0;"
    )

    def case(name: str, body: str) -> Case:
        kernel = "k_" + identifier(name.replace(" ", "_"))
        return Case(
            name,
            kernel,
            entry(kernel, [".u64 out"], head + body + "st.global.b32 [%o], %x;"),
            [Buffer(512, output=True)],
        )

    for op in ("and", "or"):
        for value in (0, 127, 200):
            yield case(
                f"barrier.red.{op} {value}",
                f"setp.lt.u32 %p, %t, {value}; barrier.sync.aligned 0;"
                f" bar.red.{op}.pred %q, 1, %p; selp.b32 %x, 1, 0, %q;",
            )
    yield case(
        "barrier.red.popc",
        "and.b32 %y, %t, 3; setp.eq.u32 %p, %y, 1;"
        " barrier.cta.red.popc.aligned.u32 %x, 2, 128, %p;",
    )
    yield case(
        "bar.arrive and bar.sync",
        "setp.lt.u32 %p, %t, 64; @%p bra FIRST; bar.sync 3, 128; ld.shared.u32 %x, [word]; bra END;"
        "FIRST: setp.eq.u32 %q, %t, 5; @%q st.shared.u32 [word], 77; bar.arrive 3, 128;"
        " END: bar.warp.sync 0xffffffff;",
    )
    yield case(
        "barrier.sync unaligned",
        "setp.lt.u32 %p, %t, 40; @%p bra FIRST; barrier.sync 4, 128; mov.u32 %x, 1; bra END;"
        "FIRST: barrier.sync 4, 128; mov.u32 %x, 2; END:",
    )


def cluster_case(name: str, body: str, cluster: int = 2, tensor: TensorMap | None = None) -> Case:
    """`body` runs in every CTA of one cluster.

    Before, %bar is initialised (count 1) and the buffer filled with the CTA's part of the input.
    """
    kernel = "k_" + identifier(name.replace(" ", "_").replace("/", "_").replace(",", ""))
    parameters = [".u64 in", ".u64 out"] + ([MAP_PARAMETER] if tensor else [])
    ptx = entry(
        kernel,
        parameters,
        f"""{PROLOGUE} .reg .b32 %rank, %peer, %ra, %v; .reg .b64 %rg;
{MAP_ADDRESS if tensor else ""}
mov.u32 %rank, %cluster_ctarank; xor.b32 %peer, %rank, 1;
mad.wide.u32 %in, %rank, {SHARED_BYTES}, %in;
mad.wide.u32 %out, %rank, {SHARED_BYTES + 4}, %out; mov.u32 %status, 9;
{fill_shared("poison" if tensor else "input")}
barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
{body}
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
{DUMP}""",
        f".reqnctapercluster {cluster}, 1, 1",
    )
    arguments = [
        Buffer(TENSOR_BYTES, tensor_input("bf16")),
        Buffer((SHARED_BYTES + 4) * cluster, output=True),
    ]
    return Case(
        name,
        kernel,
        ptx,
        [*arguments, *([tensor] if tensor else [])],
        grid=cluster,
        cluster=cluster,
        compare=Compare("digest"),
    )


def cluster_cases() -> Iterator[Case]:
    remote = "mapa.shared::cluster.u32 %ra, %s, %peer;"
    spot = "mad.lo.u32 %ra, %t, 4, %ra;"
    for size in (2, 4):
        yield cluster_case(
            f"cluster of {size} ld.shared::cluster",
            f"{remote} {spot} ld.shared::cluster.u32 %v, [%ra+1024];"
            "barrier.cluster.arrive; barrier.cluster.wait; mad.lo.u32 %y, %t, 4, %s;"
            " st.shared.u32 [%y], %v;",
            size,
        )
        yield cluster_case(
            f"cluster of {size} st.shared::cluster",
            f"{remote} {spot} mad.lo.u32 %v, %rank, 1000, %t;st.shared::cluster.u32 [%ra+512], %v;",
            size,
        )
    yield cluster_case(
        "cluster generic addresses",
        "cvt.u64.u32 %rg, %s; cvta.shared.u64 %rg, %rg; mapa.u64 %rg, %rg, %peer;"
        "mad.wide.u32 %rg, %t, 4, %rg; ld.u32 %v, [%rg]; add.u32 %v, %v, 3; st.u32 [%rg+2048], %v;"
        " getctarank.u64 %v, %rg;"
        "mad.lo.u32 %y, %t, 4, %s; st.shared.u32 [%y+4096], %v;",
    )
    yield cluster_case(
        "cluster atomics",
        f"{remote} atom.shared::cluster.add.u32 %v, [%ra], %t;"
        " red.shared::cluster.max.s32 [%ra+4], %t;"
        "atom.shared::cluster.cas.b32 %v, [%ra+8], 1, 2;",
    )
    yield cluster_case(
        "cluster getctarank",
        f"{remote} getctarank.shared::cluster.u32 %v, %ra; st.shared.u32 [%s], %v;"
        "mov.u32 %v, %cluster_nctarank; st.shared.u32 [%s+4], %v;",
    )
    yield cluster_case(
        "cluster remote arrive",
        "mapa.shared::cluster.u32 %ra, %bar, %peer;"
        "@%q mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%ra];" + WAIT,
    )
    yield cluster_case(
        "cluster remote arrive expect_tx",
        "mapa.shared::cluster.u32 %ra, %bar, %peer;"
        "@%q mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%ra], 0;" + WAIT,
    )
    for kind, bytes_, value in (
        ("b32", 4, "%t"),
        ("b64", 8, "%w"),
        ("v2.b32", 8, "{%t, %rank}"),
        ("v4.b32", 16, "{%t, %t, %rank, %x}"),
    ):
        yield cluster_case(
            f"st.async {kind}",
            f"{remote} mad.lo.u32 %ra, %t, {bytes_}, %ra; mapa.shared::cluster.u32 %v, %bar, %peer;"
            f"mov.u32 %x, 5; mov.b64 %w, {{%t, %rank}};"
            f" @%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {128 * bytes_};"
            f"bar.sync 0; st.async.shared::cluster.mbarrier::complete_tx::bytes.{kind} [%ra], "
            f"{value}, [%v];" + WAIT,
        )
    for op, kind in (
        ("add", "u32"),
        ("add", "s32"),
        ("min", "s32"),
        ("max", "u32"),
        ("inc", "u32"),
        ("dec", "u32"),
        ("and", "b32"),
        ("or", "b32"),
        ("xor", "b32"),
        ("add", "u64"),
    ):
        width, value = (8, "%w") if kind.endswith("64") else (4, "%t")
        yield cluster_case(
            f"red.async {op} {kind}",
            f"{remote} mad.lo.u32 %ra, %t, {width}, %ra; mapa.shared::cluster.u32 %v, %bar, %peer;"
            f"mov.b64 %w, {{%t, %rank}}; @%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], "
            f"{128 * width}; bar.sync 0;"
            f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}.{kind} "
            f"[%ra], {value}, [%v];" + WAIT,
        )
    yield cluster_case(
        "cp.async.bulk shared to shared",
        f"{remote} mapa.shared::cluster.u32 %v, %bar, %peer;"
        "@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 1024; fence.proxy.async;"
        " bar.sync 0;"
        "@%q cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%ra+4096], "
        "[%s+256], 1024, [%v];" + WAIT,
    )
    for op, kind in (
        ("add", "u32"),
        ("add", "s32"),
        ("add", "u64"),
        ("min", "s32"),
        ("max", "u32"),
        ("inc", "u32"),
        ("dec", "u32"),
        ("and", "b32"),
        ("or", "b32"),
        ("xor", "b32"),
    ):
        yield cluster_case(
            f"cp.reduce.async.bulk shared to shared {op} {kind}",
            f"{remote} mapa.shared::cluster.u32 %v, %bar, %peer;"
            "@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 1024; fence.proxy.async;"
            " bar.sync 0;"
            "@%q "
            "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
            f".{op}.{kind} [%ra+4096], [%s+256], 1024, [%v];" + WAIT,
        )
    yield from _multicast_cases()


def _multicast_cases() -> Iterator[Case]:
    for size, mask in ((2, 3), (2, 2), (4, 0xB), (4, 0xF)):
        receives = f"shr.u32 %x, {mask}, %rank; and.b32 %x, %x, 1; mul.lo.u32 %bytes, %x, 1024;"
        expect = (
            f"{receives} @%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %bytes;"
            " barrier.cluster.arrive; barrier.cluster.wait;"
        )
        issue = f".reg .b16 %m; mov.u16 %m, {mask}; setp.eq.u32 %p, %rank, 0; and.pred %p, %p, %q;"
        tensor = dense_map("bf16", (60, 70), (32, 16), swizzle=2)
        yield cluster_case(
            f"multicast tensor {size} {mask}",
            f"{expect} {issue} .reg .b32 %c; mov.u32 %c, 40;"
            "@%p "
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
            ".multicast::cluster [%s], [%map, {%c, %c}], [%bar], %m;" + WAIT,
            size,
            tensor,
        )
        hinted = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        hinted += ".multicast::cluster.L2::cache_hint"
        yield cluster_case(
            f"multicast tensor {size} {mask} hint",
            f"{expect} {issue} .reg .b32 %c; mov.u32 %c, 40;"
            "createpolicy.fractional.L2::evict_first.b64 %w, 1.0;"
            f"@%p {hinted} [%s], [%map, {{%c, %c}}], [%bar], %m, %w;" + WAIT,
            size,
            tensor,
        )
        yield cluster_case(
            f"multicast bulk {size} {mask}",
            f"{expect} {issue}"
            "@%p "
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
            "[%s+2048], [%in+64], 1024, [%bar], %m;" + WAIT,
            size,
        )


def async_arrive_cases() -> Iterator[Case]:
    for form, count in (("", 128), (".noinc", 256)):
        init = PROLOGUE.replace("[%bar], 1;", f"[%bar], {count};")
        body = f"""{init} {fill_shared("poison")} mad.lo.u32 %y, %t, 16, %s;
mad.wide.u32 %g, %t, 16, %in;
cp.async.cg.shared.global [%y], [%g], 16; cp.async.mbarrier.arrive{form}.shared::cta.b64 [%bar];
mbarrier.arrive.shared::cta.b64 _, [%bar]; {WAIT} {DUMP}"""
        kernel = "k_" + identifier(f"cp.async.mbarrier.arrive{form}")
        arguments = [
            Buffer(TENSOR_BYTES, tensor_input("bf16")),
            Buffer(SHARED_BYTES + 4, output=True),
        ]
        yield Case(
            f"cp.async.mbarrier.arrive{form}.shared::cta.b64",
            kernel,
            entry(kernel, [".u64 in", ".u64 out"], body),
            list(arguments),
            compare=Compare("digest"),
        )


GROUPS = {
    "mbarrier": mbarrier_cases,
    "named_barrier": named_barrier_cases,
    "cluster": cluster_cases,
    "async_arrive": async_arrive_cases,
}
