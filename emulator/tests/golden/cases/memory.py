"""Loads and stores of every width and space, address conversion, cp.async, atomics."""

from __future__ import annotations

from collections.abc import Iterator

from .alu import REGISTER, ulp
from .case import WIDTH, Buffer, Case, Compare, Input, entry, identifier

THREADS = 32


def memory_case(
    name: str,
    body: str,
    size: int = 4096,
    result: int = 512,
    block: int = THREADS,
    compare: Compare | None = None,
    seed: str = "memory",
    kind: str = "random:u32",
) -> Case:
    """`body` sees %in (random bytes), %out, %t = tid, and %s: shared memory with a copy of %in."""
    kernel = "k_" + identifier(name)
    ptx = entry(
        kernel,
        [".u64 in", ".u64 out"],
        f"""
.shared .align 128 .b8 buffer[4096];
.reg .b64 %in, %out, %g, %o, %w, %v; .reg .b32 %t, %x, %y, %s, %i; .reg .pred %p, %q;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %s, buffer;
mov.u32 %i, %t;
FILL: mad.wide.u32 %g, %i, 4, %in; ld.global.b32 %x, [%g]; shl.b32 %y, %i, 2; add.u32 %y, %y, %s;
st.shared.b32 [%y], %x;
add.u32 %i, %i, {block}; setp.lt.u32 %p, %i, 1024; @%p bra FILL;
bar.sync 0;
{body}""",
    )
    count = size // WIDTH[kind.partition(":")[2]]
    arguments = [Buffer(size, Input(kind, count, seed)), Buffer(result, output=True)]
    return Case(name, kernel, ptx, list(arguments), block=block, compare=compare or Compare())


def _vector_kinds() -> Iterator[tuple[str, int]]:
    for kind in (
        "u8",
        "s8",
        "b8",
        "u16",
        "s16",
        "b16",
        "u32",
        "s32",
        "b32",
        "f32",
        "u64",
        "s64",
        "b64",
        "f64",
    ):
        for lanes in (1, 2, 4):
            if lanes * WIDTH[kind] <= 16:
                yield kind, lanes


def load_store_cases() -> Iterator[Case]:
    for kind, lanes in _vector_kinds():
        bytes_ = lanes * WIDTH[kind]
        # Narrow values are loaded into 32-bit registers so that the extension is stored too.
        register = "b32" if WIDTH[kind] <= 2 else REGISTER[WIDTH[kind]]
        stride = lanes * (4 if register == "b32" else 8)
        names = [f"%r{i}" for i in range(lanes)]
        vector = names[0] if lanes == 1 else "{" + ", ".join(names) + "}"
        suffix = f".v{lanes}" if lanes > 1 else ""
        declare = f".reg .{register} " + ", ".join(names) + ";"
        copy_out = "".join(
            f"st.global.{register} [%o+{i * stride // lanes}], {n};" for i, n in enumerate(names)
        )
        for space, address in (
            ("global", "%g"),
            ("shared", "%y"),
            ("", "%g"),
            ("global.nc", "%g"),
            ("shared::cta", "%y"),
        ):
            where = f"mad.wide.u32 %g, %t, {bytes_}, %in; mad.lo.u32 %y, %t, {bytes_}, %s;"
            dot = f".{space}" if space else ""
            yield memory_case(
                f"ld{dot}{suffix}.{kind}",
                f"{declare} {where} mad.wide.u32 %o, %t, {stride}, %out;"
                f" ld{dot}{suffix}.{kind} {vector}, [{address}];" + copy_out,
                result=stride * THREADS,
            )
        if kind[0] in "bf" or kind == "u32":
            load = "".join(
                f"ld.global.{register} {n}, [%g+{4 * i if register == 'b32' else 8 * i}];"
                for i, n in enumerate(names)
            )
            start = f"{declare} mad.wide.u32 %g, %t, {stride}, %in; {load}"
            yield memory_case(
                f"st.global{suffix}.{kind}",
                f"{start} mad.wide.u32 %o, %t, {bytes_}, %out;"
                f" st.global{suffix}.{kind} [%o], {vector};",
                result=bytes_ * THREADS,
            )
            yield memory_case(
                f"st.shared{suffix}.{kind}",
                f"{start} mad.lo.u32 %y, %t, {bytes_}, %s;"
                f" st.shared{suffix}.{kind} [%y], {vector}; bar.sync 0;"
                + _dump_shared(bytes_ * THREADS),
                result=bytes_ * THREADS,
            )


def _dump_shared(bytes_: int, block: int = THREADS) -> str:
    """Copies the first bytes of the shared buffer to %out, byte by byte."""
    return f"""
.reg .b16 %h; mov.u32 %i, %t;
DUMP: add.u32 %y, %s, %i; ld.shared.u8 %h, [%y]; cvt.u64.u32 %g, %i; add.u64 %g, %g, %out;
st.global.u8 [%g], %h;
add.u32 %i, %i, {block}; setp.lt.u32 %p, %i, {bytes_}; @%p bra DUMP;"""


LOAD_MODIFIERS = (
    "global.ca.u32",
    "global.cg.u32",
    "global.cs.u32",
    "global.cv.u32",
    "global.lu.u32",
    "relaxed.gpu.global.u32",
    "acquire.gpu.global.u32",
    "acquire.sys.global.u64",
    "volatile.global.u32",
    "weak.global.u32",
    "relaxed.cta.shared::cta.u32",
    "acquire.cta.shared.u32",
    "volatile.shared.u32",
    "global.nc.L1::no_allocate.u32",
    "global.L1::evict_last.u32",
    "global.L1::evict_first.L2::128B.u32",
    "global.L2::64B.u32",
    "global.nc.L1::no_allocate.L2::256B.u32",
    "global.nc.L1::evict_normal.u32",
    "relaxed.cluster.global.u32",
    "mmio.relaxed.sys.global.u32",
)
STORE_MODIFIERS = (
    "global.wb.b32",
    "global.cg.b32",
    "global.cs.b32",
    "global.wt.b32",
    "relaxed.gpu.global.b32",
    "release.gpu.global.b32",
    "release.sys.global.b32",
    "volatile.global.b32",
    "weak.global.b32",
    "global.L1::no_allocate.b32",
    "global.L1::evict_last.b32",
    "release.cta.global.b32",
)


def modifier_cases() -> Iterator[Case]:
    for modifier in LOAD_MODIFIERS:
        kind = "b64" if modifier.endswith("64") else "b32"
        bytes_ = WIDTH[kind]
        address = "%y" if "shared" in modifier else "%g"
        yield memory_case(
            f"ld.{modifier}",
            f".reg .{kind} %r; mad.wide.u32 %g, %t, 8, %in; mad.lo.u32 %y, %t, 8, %s;"
            f" ld.{modifier} %r, [{address}];"
            f"mad.wide.u32 %o, %t, {bytes_}, %out; st.global.{kind} [%o], %r;",
            result=bytes_ * THREADS,
        )
    for modifier in STORE_MODIFIERS:
        yield memory_case(
            f"st.{modifier}",
            f"mad.wide.u32 %g, %t, 4, %in; ld.global.b32 %x, [%g]; mad.wide.u32 %o, %t, 4, %out;"
            f"st.{modifier} [%o], %x;",
            result=4 * THREADS,
        )
    policy = "createpolicy.fractional.L2::evict_first.b64 %w, 1.0;"
    address = (
        "mad.wide.u32 %g, %t, 16, %in; mad.wide.u32 %o, %t, 16, %out; .reg .b32 %a, %b, %c, %d;"
    )
    yield memory_case(
        "ld.global.L2::cache_hint.v4.u32",
        f"{policy} {address} ld.global.L2::cache_hint.v4.u32 {{%a, %b, %c, %d}}, [%g], %w;"
        "st.global.v4.b32 [%o], {%a, %b, %c, %d};",
    )
    yield memory_case(
        "st.global.L2::cache_hint.v4.u32",
        f"{policy} {address} ld.global.v4.u32 {{%a, %b, %c, %d}}, [%g];"
        "st.global.L2::cache_hint.v4.b32 [%o], {%a, %b, %c, %d}, %w;",
    )
    wide = (
        "mad.wide.u32 %g, %t, 16, %in; mad.wide.u32 %o, %t, 16, %out; mad.lo.u32 %y, %t, 16, %s;"
        " .reg .b128 %q1;"
    )
    yield memory_case(
        "ld.global.b128", f"{wide} ld.global.b128 %q1, [%g]; st.global.b128 [%o], %q1;"
    )
    yield memory_case(
        "ld.shared.b128", f"{wide} ld.shared.b128 %q1, [%y]; st.global.b128 [%o], %q1;"
    )
    yield memory_case(
        "ld.relaxed.gpu.global.b128",
        f"{wide} ld.relaxed.gpu.global.b128 %q1, [%g]; st.relaxed.gpu.global.b128 [%o], %q1;",
    )
    yield memory_case(
        "st.local",
        f".local .align 16 .b8 depot[64]; {address} ld.global.v4.u32 {{%a, %b, %c, %d}}, [%g];"
        "st.local.v4.b32 [depot+16], {%a, %b, %c, %d}; st.local.u16 [depot+18], 7;"
        " ld.local.v2.u32 {%a, %b}, [depot+24];"
        "ld.local.v2.u32 {%c, %d}, [depot+16]; st.global.v4.b32 [%o], {%a, %b, %c, %d};",
    )
    yield memory_case(
        "prefetch",
        "prefetch.global.L2 [%in]; prefetch.global.L1 [%in]; prefetch.global.L2::evict_last [%in];"
        "mad.wide.u32 %o, %t, 4, %out; st.global.b32 [%o], %t;",
        result=128,
    )
    yield memory_case(
        "cvta",
        ".local .b32 spot; st.local.u32 [spot], %t; mov.u64 %g, spot; cvta.local.u64 %g, %g;"
        " ld.u32 %x, [%g];"
        "cvt.u64.u32 %w, %s; cvta.shared.u64 %w, %w; ld.u32 %y, [%w+4]; add.u32 %x, %x, %y;"
        " cvta.to.global.u64 %o, %out;"
        "cvta.to.shared.u64 %w, %w; cvt.u32.u64 %y, %w; sub.u32 %y, %y, %s; add.u32 %x, %x, %y;"
        "mad.wide.u32 %o, %t, 4, %o; st.global.b32 [%o], %x;",
        result=128,
    )
    for space in ("global", "shared", "local", "const", "param", "shared::cta", "shared::cluster"):
        yield memory_case(
            f"isspacep.{space}",
            ".local .b32 spot; cvt.u64.u32 %w, %s; cvta.shared.u64 %w, %w; mov.u64 %v, spot;"
            f"cvta.local.u64 %v, %v; isspacep.{space} %p, %w; selp.b32 %x, 1, 0, %p;"
            f" isspacep.{space} %p, %v;"
            f"selp.b32 %y, 2, 0, %p; or.b32 %x, %x, %y; isspacep.{space} %p, %in;"
            " selp.b32 %y, 4, 0, %p;"
            "or.b32 %x, %x, %y; mad.wide.u32 %o, %t, 4, %out; st.global.b32 [%o], %x;",
            result=128,
        )


def async_copy_cases() -> Iterator[Case]:
    finish = "cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;"
    for cache, bytes_ in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)):
        where = (
            f"mad.wide.u32 %g, %t, {bytes_}, %in; add.u64 %g, %g, 2048;"
            f" mad.lo.u32 %y, %t, {bytes_}, %s;"
        )
        dump = _dump_shared(bytes_ * THREADS)
        for hint in ("", ".L2::64B", ".L2::128B", ".L2::256B"):
            yield memory_case(
                f"cp.async.{cache}.shared.global{hint}/{bytes_}",
                f"{where} cp.async.{cache}.shared.global{hint} [%y], [%g], {bytes_};"
                f" {finish} {dump}",
                result=bytes_ * THREADS,
            )
        yield memory_case(
            f"cp.async.{cache}/source_size/{bytes_}",
            f"{where} rem.u32 %x, %t, {bytes_ + 1};"
            f"cp.async.{cache}.shared.global [%y], [%g], {bytes_}, %x; cp.async.wait_all;"
            f" bar.sync 0; {dump}",
            result=bytes_ * THREADS,
        )
        yield memory_case(
            f"cp.async.{cache}/ignore_source/{bytes_}",
            f"{where} and.b32 %x, %t, 1; setp.eq.u32 %q, %x, 1;"
            f"cp.async.{cache}.shared.global [%y], [%g], {bytes_}, %q; {finish} {dump}",
            result=bytes_ * THREADS,
        )
        yield memory_case(
            f"cp.async.{cache}/cache_hint/{bytes_}",
            f"{where} createpolicy.fractional.L2::evict_last.b64 %w, 0.5;"
            f"cp.async.{cache}.shared::cta.global.L2::cache_hint [%y], [%g], {bytes_}, %w;"
            f" {finish} {dump}",
            result=bytes_ * THREADS,
        )


ATOMIC_KINDS = {
    "add": ("u32", "s32", "u64", "f32", "f64"),
    "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64"),
    "cas": ("b16", "b32", "b64"),
}
HALF_ATOMICS = (
    ("add.noftz", "f16"),
    ("add.noftz", "f16x2"),
    ("add.noftz", "bf16"),
    ("add.noftz", "bf16x2"),
)


def atomic_cases() -> Iterator[Case]:
    """Each thread on an address of its own, and all on one where order is immaterial."""
    all_kinds = [(op, kind) for op, kinds in ATOMIC_KINDS.items() for kind in kinds] + list(
        HALF_ATOMICS
    )
    for op, kind in all_kinds:
        width = WIDTH[kind]
        register = REGISTER[width]
        compare = ulp(kind.removesuffix("x2"), 0.0) if "f" in kind else None
        for space in ("global", "shared"):
            address = "%g" if space == "global" else "%y"
            # Operand slots of 8 bytes from the input; the target is in %out or the shared buffer.
            setup = (
                f".reg .{register} %old, %value, %other; mad.wide.u32 %g, %t, 24, %in;"
                f" ld.global.{register} %old, [%g];"
                f"ld.global.{register} %value, [%g+8]; ld.global.{register} %other, [%g+16];"
                f" mad.wide.u32 %g, %t, {width}, %out;"
                f"mad.lo.u32 %y, %t, {width}, %s; st.{space}.{register} [{address}], %old;"
                " bar.sync 0;"
            )
            if op == "cas":
                setup += (
                    "and.b32 %x, %t, 1; setp.eq.u32 %p, %x, 0; @%p mov."
                    + register
                    + " %value, %old;"
                )
            operands = "%value, %other" if op == "cas" else "%value"
            finish = (
                f"mad.wide.u32 %o, %t, {width}, %out;"
                f" st.global.{register} [%o+{width * THREADS}], %old; bar.sync 0;"
                f"ld.{space}.{register} %old, [{address}]; st.global.{register} [%o], %old;"
            )
            inputs = f"operands:{kind},{kind},{kind}"
            for form in ("", ".relaxed.gpu", ".acq_rel.cta") if space == "global" else ("",):
                name = f"atom{form}.{space}.{op}.{kind}"
                yield _atomic(
                    name,
                    f"{setup} {name} %old, [{address}], {operands}; {finish}",
                    inputs,
                    2 * width * THREADS,
                    compare,
                )
            if op not in ("exch", "cas"):
                name = f"red.{space}.{op}.{kind}"
                yield _atomic(
                    name,
                    f"{setup} {name} [{address}], %value; {finish}",
                    inputs,
                    2 * width * THREADS,
                    compare,
                )
    for op, kind in (
        ("add", "u32"),
        ("max", "s32"),
        ("min", "u64"),
        ("xor", "b32"),
        ("add", "u64"),
    ):
        register = REGISTER[WIDTH[kind]]
        yield memory_case(
            f"red.global.{op}.{kind}/contended",
            f".reg .{register} %value; setp.eq.u32 %p, %t, 0;"
            f" @%p st.global.{register} [%out], 12345; bar.sync 0;"
            f"mad.wide.u32 %g, %t, 8, %in; ld.global.{register} %value, [%g];"
            f" red.global.{op}.{kind} [%out], %value;",
            result=8,
        )
    yield from _vector_atomics()


def _atomic(name: str, body: str, inputs: str, result: int, compare: Compare | None) -> Case:
    case = memory_case(name, body, result=result, compare=compare)
    case.arguments[0] = Buffer(4096, Input(inputs, -(-4096 // 24), "atomic"))
    return case


def _vector_atomics() -> Iterator[Case]:
    for vector, kind, register, op in (
        ("v2", "f32", "b32", "add"),
        ("v4", "f32", "b32", "add"),
        ("v2", "f16", "b16", "add.noftz"),
        ("v4", "f16", "b16", "max.noftz"),
        ("v8", "f16", "b16", "add.noftz"),
        ("v8", "bf16", "b16", "min.noftz"),
        ("v2", "f16x2", "b32", "add.noftz"),
        ("v4", "bf16x2", "b32", "add.noftz"),
    ):
        lanes = int(vector[1:])
        width = WIDTH[kind]
        names = [f"%r{i}" for i in range(lanes)]
        old = [f"%o{i}" for i in range(lanes)]
        load = "".join(
            f"ld.global.{register} {n}, [%g+{8 * i}]; st.global.{register} [%o+{width * i}], {n};"
            for i, n in enumerate(names)
        )
        load += "".join(
            f"ld.global.{register} {n}, [%g+{8 * (lanes + i)}];" for i, n in enumerate(names)
        )
        body = (
            f".reg .{register} {', '.join(names + old)}; mad.wide.u32 %g, %t, {16 * lanes}, %in;"
            f" mad.wide.u32 %o, %t, {lanes * width}, %out;"
            f"{load} {{atomic}}"
        )
        form = "atom.global." + f"{vector}.{kind}.{op}"
        source = f"operands:{','.join([kind] * 2 * lanes)}"
        for name, text, size in (
            (f"red.relaxed.gpu.global.{vector}.{kind}.{op}", "{form} [%o], {{{values}}};", 1),
            (
                form,
                "{form} {{{old}}}, [%o], {{{values}}};"
                + "".join(
                    f"st.global.{register} [%o+{lanes * width * THREADS + width * i}], {n};"
                    for i, n in enumerate(old)
                ),
                2,
            ),
        ):
            atomic = text.format(form=name, values=", ".join(names), old=", ".join(old))
            case = memory_case(
                f"{name}",
                body.replace("{atomic}", atomic),
                result=size * lanes * width * THREADS,
                compare=ulp(kind.removesuffix("x2"), 0.0),
            )
            case.arguments[0] = Buffer(
                max(4096, 16 * lanes * THREADS),
                Input(source, max(THREADS, -(-4096 // (16 * lanes))), "atomic"),
            )
            yield case


def wide_atomic_cases() -> Iterator[Case]:
    setup = (
        "mad.wide.u32 %g, %t, 16, %in; mad.wide.u32 %o, %t, 32, %out; .reg .b128 %q1, %q2, %q3;"
        " ld.global.b128 %q1, [%g];"
        "ld.global.b128 %q2, [%g+512]; st.global.b128 [%o], %q1;"
    )
    yield memory_case(
        "atom.global.exch.b128",
        f"{setup} atom.global.exch.b128 %q3, [%o], %q2; st.global.b128 [%o+16], %q3;",
        result=1024,
    )
    yield memory_case(
        "atom.global.cas.b128",
        f"{setup} and.b32 %x, %t, 1; setp.eq.u32 %p, %x, 0; .reg .b128 %q4; mov.b128 %q4, %q2;"
        "@%p mov.b128 %q4, %q1; atom.global.cas.b128 %q3, [%o], %q4, %q2;"
        " st.global.b128 [%o+16], %q3;",
        result=1024,
    )


GROUPS = {
    "load_store": load_store_cases,
    "memory_modifiers": modifier_cases,
    "cp_async": async_copy_cases,
    "atomics": atomic_cases,
    "wide_atomics": wide_atomic_cases,
}
