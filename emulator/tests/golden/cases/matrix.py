"""ldmatrix, stmatrix, mma.sync and wgmma: layouts by small integers, arithmetic by real numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from .case import WIDTH, Argument, Buffer, Case, Compare, Input, Word, entry, identifier
from .memory import _dump_shared, memory_case


def matrix_load_cases() -> Iterator[Case]:
    for count in (1, 2, 4):
        for transpose in ("", ".trans"):
            names = [f"%r{i}" for i in range(count)]
            registers = "{" + ", ".join(names) + "}"
            # Rows in a scattered order: lane l supplies row (5 l + 3) mod 32.
            address = (
                f".reg .b32 {', '.join(names)}; mad.lo.u32 %x, %t, 5, 3; and.b32 %x, %x, 31;"
                " mad.lo.u32 %y, %x, 16, %s;"
            )
            store = "".join(f"st.global.b32 [%o+{4 * i}], {n};" for i, n in enumerate(names))
            for space in ("shared", "shared::cta"):
                yield memory_case(
                    f"ldmatrix.sync.aligned.m8n8.x{count}{transpose}.{space}.b16",
                    f"{address} ldmatrix.sync.aligned.m8n8.x{count}{transpose}.{space}.b16 "
                    f"{registers}, [%y];"
                    f"mad.wide.u32 %o, %t, {4 * count}, %out; {store}",
                    result=128 * count,
                )
                load = "".join(f"ld.global.b32 {n}, [%g+{4 * i}];" for i, n in enumerate(names))
                yield memory_case(
                    f"stmatrix.sync.aligned.m8n8.x{count}{transpose}.{space}.b16",
                    f"{address} mad.wide.u32 %g, %t, 16, %in; add.u64 %g, %g, 1024; {load}"
                    f"stmatrix.sync.aligned.m8n8.x{count}{transpose}.{space}.b16 [%y], "
                    f"{registers}; bar.sync 0;" + _dump_shared(512),
                    result=512,
                )


MMA_SHAPES: list[tuple[str, str, str, str, str]] = (  # shape, d, a, b, c
    [(s, d, "f16", "f16", d) for s in ("m16n8k8", "m16n8k16") for d in ("f16", "f32")]
    + [(s, "f32", "bf16", "bf16", "f32") for s in ("m16n8k8", "m16n8k16")]
    + [(s, "f32", "tf32", "tf32", "f32") for s in ("m16n8k4", "m16n8k8")]
    + [
        (s, d, a, b, d)
        for s, d, a, b in product(
            ("m16n8k16", "m16n8k32"), ("f32", "f16"), ("e4m3", "e5m2"), ("e4m3", "e5m2")
        )
    ]
    + [
        (s, "s32", a, b, "s32")
        for s, a, b in product(("m8n8k16", "m16n8k16", "m16n8k32"), ("s8", "u8"), ("s8", "u8"))
    ]
    + [(s, "f64", "f64", "f64", "f64") for s in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")]
)


def _dimensions(shape: str) -> tuple[int, int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


# Worst |error| of one product sum relative to the sum of magnitudes: hardware truncates.
MMA_TOLERANCE = {
    "f16": 2**-21,
    "bf16": 2**-21,
    "tf32": 2**-21,
    "e4m3": 2**-11,
    "e5m2": 2**-11,
    "f64": 2**-50,
}


def mma_tolerance(input_kind: str, result: str, k: int) -> Compare:
    magnitude = k + 1.0  # inputs are below 1
    if result == "f16":
        return Compare("absolute", "f16", magnitude * 2**-10)
    return Compare("absolute", result, magnitude * MMA_TOLERANCE[input_kind])


def mma_case(
    shape: str, d: str, a: str, b: str, c: str, form: str, layout: str = "row.col", suffix: str = ""
) -> Case:
    m, n, k = _dimensions(shape)
    quads = shape == "m8n8k4" and a == "f16"
    elements = {"a": m * k, "b": k * n, "c": m * n, "d": m * n}
    kinds = {"a": a, "b": b, "c": c, "d": d}
    wide = a == "f64"
    register = "f64" if wide else "b32"
    count = {
        o: (2 if o in "ab" else 4 if kinds[o] == "f16" else 8)
        if quads
        else elements[o] * WIDTH[kinds[o]] // (32 * (8 if wide else 4))
        for o in elements
    }
    names = {o: [f"%{o}{i}" for i in range(count[o])] for o in count}
    if d in ("f32",) and not wide:
        names_type = {o: "f32" if o in "cd" and kinds[o] == "f32" else "b32" for o in count}
    else:
        names_type = dict.fromkeys(count, register)
    step = 8 if wide else 4
    lines = [f".reg .{names_type[o]} {', '.join(names[o])};" for o in count]
    lines += [
        ".reg .b64 %in, %out; .reg .b32 %t; ld.param.u64 %in, [in]; ld.param.u64 %out, [out];"
        " mov.u32 %t, %tid.x;"
    ]
    lines += [f"mad.wide.u32 %in, %t, {step}, %in; mad.wide.u32 %out, %t, {step}, %out;"]
    offset = 0
    for o in "abc":
        for name in names[o]:
            lines += [f"ld.global.{names_type[o]} {name}, [%in+{offset}];"]
            offset += 32 * step
    types = ".".join((d, a, b, c))
    opcode = f"mma.sync.aligned.{shape}.{layout}{suffix}.{types}"
    lines += [opcode + " " + ", ".join("{" + ", ".join(names[o]) + "}" for o in "dabc") + ";"]
    lines += [
        f"st.global.{names_type['d']} [%out+{32 * step * i}], {name};"
        for i, name in enumerate(names["d"])
    ]
    kernel = "k_" + identifier(opcode)
    # The input is laid out by registers; every operand's values are packed into its own registers.
    sources = [
        Input(f"{form}:{kinds[o]}", 32 * step * count[o] // WIDTH[kinds[o]], f"mma {o}")
        for o in "abc"
    ]
    compare = Compare() if form == "small" or d == "s32" else mma_tolerance(a, d, k)
    if form == "small" and d in ("f16", "f32", "f64"):
        compare = Compare("ulp", d, 0)
    initial = Input("concat:" + "+".join(f"{s.kind}#{s.count}#{s.seed}" for s in sources), 0, "")
    arguments: list[Argument] = [
        Buffer(offset, initial),
        Buffer(32 * step * count["d"], output=True),
    ]
    return Case(
        f"{opcode}/{form}",
        kernel,
        entry(kernel, [".u64 in", ".u64 out"], "\n".join(lines)),
        arguments,
        block=32,
        compare=compare,
    )


def mma_cases() -> Iterator[Case]:
    for shape, d, a, b, c in MMA_SHAPES:
        for form in ("random",) if d == "s32" else ("small", "real"):
            yield mma_case(shape, d, a, b, c, form)
        if d == "s32":
            yield mma_case(shape, d, a, b, c, "random", suffix=".satfinite")
    for layouts in product(("row", "col"), ("row", "col")):
        for d, c in (("f16", "f16"), ("f32", "f32"), ("f32", "f16")):
            yield mma_case("m8n8k4", d, "f16", "f16", c, "small", ".".join(layouts))


SHARED_BYTES = 45056
A_REGISTERS = 4


def wgmma_kernel(
    n: int,
    d: str,
    a: str,
    b: str,
    registers: bool,
    transpose: str = "00",
    scale: str = "1, 1",
    satfinite: bool = False,
) -> tuple[str, str, int]:
    """Kernel name, PTX and number of D registers.

    Arguments: in, out, descriptors of A and B relative to the buffer, scale-d.
    """
    k = 32 // WIDTH[b]
    opcode = (
        f"wgmma.mma_async.sync.aligned.m64n{n}k{k}{'.satfinite' if satfinite else ''}.{d}.{a}.{b}"
    )
    count = n // 4 if d == "f16" else n // 2
    kind = "f32" if d == "f32" else "b32"
    d_names = [f"%d{i}" for i in range(count)]
    a_names = [f"%a{i}" for i in range(A_REGISTERS)]
    kernel = (
        "k_"
        + identifier(opcode)
        + ("_rs" if registers else "_ss")
        + f"_{transpose}_"
        + scale.replace("-", "m").replace(", ", "_")
    )
    immediates = "" if d == "s32" else f", {scale}"
    if WIDTH[b] == 2:
        immediates += f", {transpose[1]}" if registers else f", {transpose[0]}, {transpose[1]}"
    first = "{" + ", ".join(a_names) + "}" if registers else "%da"
    body = f"""
.shared .align 1024 .b8 buffer[{SHARED_BYTES}];
.reg .{kind} {", ".join(d_names)}; .reg .b32 {", ".join(a_names)};
.reg .b64 %in, %out, %g, %da, %db, %base; .reg .b32 %t, %x, %y, %s, %i, %scale; .reg .pred %p, %sd;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u64 %da, [a]; ld.param.u64 %db, [b];
ld.param.u32 %scale, [scale];
mov.u32 %t, %tid.x; mov.u32 %s, buffer; mov.u32 %i, %t;
FILL: mad.wide.u32 %g, %i, 4, %in; ld.global.b32 %x, [%g]; shl.b32 %y, %i, 2; add.u32 %y, %y, %s;
st.shared.b32 [%y], %x;
add.u32 %i, %i, 128; setp.lt.u32 %p, %i, {SHARED_BYTES // 4}; @%p bra FILL;
fence.proxy.async.shared::cta; bar.sync 0;
shr.u32 %x, %s, 4; cvt.u64.u32 %base, %x; add.u64 %da, %da, %base; add.u64 %db, %db, %base;
setp.ne.u32 %sd, %scale, 0;
mad.wide.u32 %g, %t, 4, %in; add.u64 %g, %g, {SHARED_BYTES};
{"".join(f"ld.global.b32 {r}, [%g+{512 * i}];" for i, r in enumerate(a_names))}
{"".join(f"ld.global.{kind} {r}, [%g+{512 * (A_REGISTERS + i)}];" for i, r in enumerate(d_names))}
wgmma.fence.sync.aligned;
{opcode} {{{", ".join(d_names)}}}, {first}, %db, %sd{immediates};
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
mad.wide.u32 %out, %t, 4, %out;
{"".join(f"st.global.{kind} [%out+{512 * i}], {r};" for i, r in enumerate(d_names))}"""
    parameters = [".u64 in", ".u64 out", ".u64 a", ".u64 b", ".u32 scale"]
    return kernel, entry(kernel, parameters, body), count


def descriptor(start: int, lbo: int, sbo: int, swizzle: int, base_offset: int = 0) -> int:
    """Offsets in bytes; swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes."""
    return start >> 4 | lbo >> 4 << 16 | sbo >> 4 << 32 | base_offset << 49 | swizzle << 62


def wgmma_case(
    label: str,
    n: int,
    d: str,
    a: str,
    b: str,
    a_descriptor: int | None,
    b_descriptor: int,
    transpose: str = "00",
    scale: str = "1, 1",
    scale_d: int = 1,
    form: str = "small",
    satfinite: bool = False,
) -> Case:
    kernel, ptx, count = wgmma_kernel(n, d, a, b, a_descriptor is None, transpose, scale, satfinite)
    k = 32 // WIDTH[b]
    shared = f"{form}:{b}#{SHARED_BYTES // WIDTH[b]}#wgmma shared"
    if a != b and a_descriptor is not None:  # A lies in the first 8 KiB
        shared = f"{form}:{a}#8192#wgmma a+{form}:{b}#{SHARED_BYTES - 8192}#wgmma b"
    in_registers = f"{form}:{a}#{512 * A_REGISTERS // WIDTH[a]}#wgmma registers"
    accumulators = f"{'random' if satfinite else form}:{d}#{512 * count // WIDTH[d]}#wgmma d"
    initial = Input(f"concat:{shared}+{in_registers}+{accumulators}", 0, "")
    size = SHARED_BYTES + 512 * (A_REGISTERS + count)
    arguments: list[Argument] = [
        Buffer(size, initial),
        Buffer(512 * count, output=True),
        Word(a_descriptor or 0),
        Word(b_descriptor),
        Word(scale_d, 32),
    ]
    compare = mma_tolerance(a, d, k) if form == "real" else Compare("digest")
    form_name = "rs" if a_descriptor is None else "ss"
    return Case(
        f"wgmma.m64n{n}k{k}.{d}.{a}.{b}/{form_name}/{label}",
        kernel,
        ptx,
        arguments,
        compare=compare,
    )


WGMMA_TYPES = (
    [("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32")]
    + [(d, a, b) for d, a, b in product(("f32", "f16"), ("e4m3", "e5m2"), ("e4m3", "e5m2"))]
    + [("s32", a, b) for a, b in product(("s8", "u8"), ("s8", "u8"))]
)
B_START = 8192
SWIZZLE_ROW = {0: 16, 1: 128, 2: 64, 3: 32}


def wgmma_cases() -> Iterator[Case]:
    a128, b128 = descriptor(0, 16, 1024, 1), descriptor(B_START, 16, 1024, 1)
    for n in range(8, 257, 8):
        yield wgmma_case("every n", n, "f32", "bf16", "bf16", a128, b128)
    for d, a, b in WGMMA_TYPES:
        for n in (8, 24, 64, 256) if d == "s32" else (8, 64, 256):
            yield wgmma_case("types", n, d, a, b, a128, b128)
            yield wgmma_case("types", n, d, a, b, None, b128)
        yield wgmma_case("overwrite", 32, d, a, b, a128, b128, scale_d=0)
        yield wgmma_case("overwrite", 32, d, a, b, None, b128, scale_d=0)
        if d == "s32":
            yield wgmma_case("satfinite", 32, d, a, b, a128, b128, satfinite=True)
        else:
            for scale in ("-1, 1", "1, -1", "-1, -1"):
                yield wgmma_case(f"scale {scale}", 16, d, a, b, a128, b128, scale=scale)
            yield wgmma_case("scale -1, 1", 16, d, a, b, None, b128, scale="-1, 1")
            yield wgmma_case("real", 16, d, a, b, a128, b128, form="real")
    yield from _layout_cases()


def _layout_cases() -> Iterator[Case]:
    """Both majors, regular and odd strides, k steps, base offsets."""
    for swizzle, row in SWIZZLE_ROW.items():
        for d, kind in (("f32", "bf16"), ("f32", "tf32"), ("f32", "e4m3")):
            strides = (
                ((128 * 8, 8 * row), (16, 8 * row), (4096, 8 * row + 16 * 8), (128, 256))
                if swizzle == 0
                else ((16, 8 * row), (0, 8 * row), (4096, 8 * row), (16, 16 * row))
            )
            for lbo, sbo in strides:
                yield wgmma_case(
                    f"K major swizzle {swizzle} lbo {lbo} sbo {sbo}",
                    64,
                    d,
                    kind,
                    kind,
                    descriptor(0, lbo, sbo, swizzle),
                    descriptor(B_START, lbo, sbo, swizzle),
                )
        for step in range(32, row, 32):
            yield wgmma_case(
                f"K step of {step} bytes, swizzle {swizzle}",
                64,
                "f32",
                "bf16",
                "bf16",
                descriptor(step, 16, 8 * row, swizzle),
                descriptor(B_START + step, 16, 8 * row, swizzle),
            )
        for transpose in ("01", "10", "11"):
            for lbo, sbo in ((2048, 8 * row), (8 * row, 2048), (4096, 1024), (1024, 4096)):
                k_major = descriptor(0, 16 if swizzle else 1024, 8 * row, swizzle)
                mn_major = descriptor(0, lbo, sbo, swizzle)
                a = mn_major if transpose[0] == "1" else k_major
                b = (mn_major if transpose[1] == "1" else k_major) + (B_START >> 4)
                yield wgmma_case(
                    f"transpose {transpose} swizzle {swizzle} lbo {lbo} sbo {sbo}",
                    64,
                    "f32",
                    "bf16",
                    "bf16",
                    a,
                    b,
                    transpose,
                )
        for n in (8, 24, 40, 128, 256):
            lbo = max(16 * row, 512) if n < 256 else 16 * row
            b = descriptor(B_START, lbo, 8 * row, swizzle)
            yield wgmma_case(
                f"B MN major swizzle {swizzle}",
                n,
                "f32",
                "f16",
                "f16",
                descriptor(0, 16, 1024, 1),
                b,
                "01",
            )
            yield wgmma_case(f"B MN major swizzle {swizzle}", n, "f16", "f16", "f16", None, b, "01")
    for start in (128, 256, 512, 896):
        for base_offset in sorted({0, start // 128, 1}):
            yield wgmma_case(
                f"start {start} base offset {base_offset}",
                64,
                "f32",
                "bf16",
                "bf16",
                descriptor(start, 16, 1024, 1, base_offset),
                descriptor(B_START + start, 16, 1024, 1, base_offset),
            )
    for swizzle in (2, 3):
        yield wgmma_case(
            f"start 128 base offset 1 swizzle {swizzle}",
            64,
            "f32",
            "bf16",
            "bf16",
            descriptor(128, 16, 8 * SWIZZLE_ROW[swizzle], swizzle, 1),
            descriptor(B_START + 128, 16, 8 * SWIZZLE_ROW[swizzle], swizzle, 1),
        )


GROUPS = {"matrix_load": matrix_load_cases, "mma": mma_cases, "wgmma": wgmma_cases}
