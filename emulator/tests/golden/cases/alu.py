"""Arithmetic, logic, comparison and approximation: one instruction per kernel, 128 threads.

Operands are pairs of special values and random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from .case import WIDTH, Buffer, Case, Compare, Input, entry, identifier

THREADS = 128
REGISTER = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}


def register_type(kind: str) -> str:
    return "pred" if kind == "pred" else REGISTER[WIDTH[kind]]


def instruction_case(
    name: str,
    result: str,
    operands: list[str],
    text: str | None = None,
    compare: Compare | None = None,
) -> Case:
    """A kernel that runs `text` (default: `name d, a, b, …;`) on registers d, a, b, c, e."""
    letters = "abce"[: len(operands)]
    lines = [
        ".reg .b64 %in, %out, %t64; .reg .b32 %t; .reg .pred %p, %q; .reg .b32 %x, %y;"
        " .reg .b64 %xl, %yl;"
    ]
    lines += [f".reg .{register_type(k)} {r};" for k, r in zip(operands, letters, strict=True)]
    lines += [
        f".reg .{register_type(result)} d;",
        "ld.param.u64 %in, [in]; ld.param.u64 %out, [out];",
    ]
    lines += ["mov.u32 %t, %tid.x;", f"mad.wide.u32 %in, %t, {8 * len(operands)}, %in;"]
    for position, (kind, letter) in enumerate(zip(operands, letters, strict=True)):
        if kind == "pred":
            lines += [
                f"ld.global.b32 %x, [%in+{8 * position}]; and.b32 %x, %x, 1;"
                f" setp.ne.s32 {letter}, %x, 0;"
            ]
        else:
            lines += [f"ld.global.{register_type(kind)} {letter}, [%in+{8 * position}];"]
    lines += [text if text is not None else f"{name} d, {', '.join(letters)};"]
    bytes_out = max(WIDTH[result], 2)
    lines += [f"mad.wide.u32 %out, %t, {bytes_out}, %out;"]
    if result == "pred":
        lines += ["selp.b32 %x, 1, 0, d; st.global.b32 [%out], %x;"]
    else:
        lines += [f"st.global.{register_type(result)} [%out], d;"]
    kernel = "k_" + identifier(name)
    kinds = ",".join("u32" if k == "pred" else k for k in operands)
    arguments = [
        Buffer(8 * len(operands) * THREADS, Input(f"operands:{kinds}", THREADS, "alu")),
        Buffer(bytes_out * THREADS, output=True),
    ]
    ptx = entry(kernel, [".u64 in", ".u64 out"], "\n".join(lines))
    return Case(name, kernel, ptx, list(arguments), compare=compare or default_compare(result))


def default_compare(result: str) -> Compare:
    """Floats compare by value with all NaNs equal, everything else by its bits."""
    if result in ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2"):
        return Compare("ulp", result.removesuffix("x2"), 0.0)
    return Compare("exact")


def ulp(element: str, tolerance: float) -> Compare:
    return Compare("ulp", element, tolerance)


INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")


def integer_cases() -> Iterator[Case]:
    for kind in INTEGERS:
        for op in ("add", "sub", "div", "rem", "min", "max", "sad"):
            operands = [kind] * (3 if op == "sad" else 2)
            if op == "sad":
                operands[2] = kind
            yield instruction_case(f"{op}.{kind}", kind, operands)
        for op in ("mul.lo", "mul.hi"):
            yield instruction_case(f"{op}.{kind}", kind, [kind, kind])
        for op in ("mad.lo", "mad.hi"):
            yield instruction_case(f"{op}.{kind}", kind, [kind] * 3)
    for kind, wide in (("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")):
        yield instruction_case(f"mul.wide.{kind}", wide, [kind, kind])
        yield instruction_case(f"mad.wide.{kind}", wide, [kind, kind, wide])
    for kind in ("s16", "s32", "s64"):
        yield instruction_case(f"abs.{kind}", kind, [kind])
        yield instruction_case(f"neg.{kind}", kind, [kind])
    for name in (
        "add.sat.s32",
        "sub.sat.s32",
        "add.u16x2",
        "add.s16x2",
        "min.u16x2",
        "min.s16x2",
        "max.u16x2",
        "max.s16x2",
        "min.relu.s16x2",
        "max.relu.s16x2",
        "min.relu.s32",
        "max.relu.s32",
        "mul24.lo.s32",
        "mul24.hi.s32",
        "mul24.lo.u32",
        "mul24.hi.u32",
    ):
        kind = name.rsplit(".", 1)[1]
        yield instruction_case(name, kind, [kind, kind])
    for name in (
        "mad.hi.sat.s32",
        "mad24.lo.s32",
        "mad24.hi.s32",
        "mad24.lo.u32",
        "mad24.hi.u32",
        "mad24.hi.sat.s32",
    ):
        kind = name.rsplit(".", 1)[1]
        yield instruction_case(name, kind, [kind] * 3)
    for a in ("u32", "s32"):
        for b in ("u32", "s32"):
            result = "s32" if "s32" in (a, b) else "u32"
            yield instruction_case(f"dp4a.{a}.{b}", result, [a, b, result])
            for half in ("lo", "hi"):
                yield instruction_case(f"dp2a.{half}.{a}.{b}", result, [a, b, result])


def carry_cases() -> Iterator[Case]:
    for kind in ("u32", "s32", "u64", "s64"):
        low, high = ("%x", "%y") if kind.endswith("32") else ("%xl", "%yl")
        width = kind[1:]
        fold = f"xor.b{width} d, {low}, {high};"
        yield instruction_case(
            f"add.cc.{kind}",
            kind,
            [kind] * 3,
            f"add.cc.{kind} {low}, a, b; addc.{kind} {high}, c, a; shl.b{width} {high}, {high}, 1;"
            f" {fold}",
        )
        yield instruction_case(
            f"addc.cc.{kind}",
            kind,
            [kind] * 3,
            f"add.cc.{kind} {low}, a, b; addc.cc.{kind} {low}, {low}, c; addc.{kind} d, {low}, 0;",
        )
        yield instruction_case(
            f"sub.cc.{kind}",
            kind,
            [kind] * 3,
            f"sub.cc.{kind} {low}, a, b; subc.{kind} {high}, c, a; shl.b{width} {high}, {high}, 1;"
            f" {fold}",
        )
        yield instruction_case(
            f"subc.cc.{kind}",
            kind,
            [kind] * 3,
            f"sub.cc.{kind} {low}, a, b; subc.cc.{kind} {low}, {low}, c; subc.{kind} d, {low}, 0;",
        )
        yield instruction_case(
            f"mad.lo.cc.{kind}",
            kind,
            [kind] * 3,
            f"mad.lo.cc.{kind} {low}, a, b, c; madc.hi.{kind} {high}, a, b, c; {fold}",
        )
        yield instruction_case(
            f"madc.lo.cc.{kind}",
            kind,
            [kind] * 3,
            f"mad.hi.cc.{kind} {low}, a, b, c; madc.lo.cc.{kind} {low}, a, b, {low};"
            f" addc.{kind} d, {low}, 0;",
        )


def bit_cases() -> Iterator[Case]:
    for width in (16, 32, 64):
        kind = f"b{width}"
        for op in ("and", "or", "xor"):
            yield instruction_case(f"{op}.{kind}", kind, [kind, kind])
        for op in ("not", "cnot"):
            yield instruction_case(f"{op}.{kind}", kind, [kind])
        yield instruction_case(f"shl.{kind}", kind, [kind, "u32"])
        for sign in "bus":
            yield instruction_case(f"shr.{sign}{width}", kind, [f"{sign}{width}", "u32"])
    for op in ("and", "or", "xor"):
        yield instruction_case(f"{op}.pred", "pred", ["pred", "pred"])
    yield instruction_case("not.pred", "pred", ["pred"])
    for width in (32, 64):
        kind = f"b{width}"
        for op in ("popc", "clz"):
            yield instruction_case(f"{op}.{kind}", "u32", [kind])
        yield instruction_case(f"brev.{kind}", kind, [kind])
        # Positions and lengths count up to 255.
        yield instruction_case(
            f"bfi.{kind}",
            kind,
            [kind, kind, "u32", "u32"],
            f"and.b32 c, c, 255; and.b32 e, e, 127; bfi.{kind} d, a, b, c, e;",
        )
        for sign in "us":
            yield instruction_case(
                f"bfe.{sign}{width}",
                kind,
                [f"{sign}{width}", "u32", "u32"],
                f"and.b32 b, b, 255; and.b32 c, c, 127; bfe.{sign}{width} d, a, b, c;",
            )
            yield instruction_case(f"bfind.{sign}{width}", "u32", [f"{sign}{width}"])
            yield instruction_case(f"bfind.shiftamt.{sign}{width}", "u32", [f"{sign}{width}"])
    yield instruction_case(
        "fns.b32",
        "b32",
        ["b32", "u32", "s32"],
        "and.b32 b, b, 31; rem.s32 c, c, 9; fns.b32 d, a, b, c;",
    )
    for mode in ("clamp", "wrap"):
        yield instruction_case(f"bmsk.{mode}.b32", "b32", ["u32", "u32"])
        for sign in "us":
            yield instruction_case(f"szext.{mode}.{sign}32", "b32", [f"{sign}32", "u32"])
        for direction in "lr":
            yield instruction_case(f"shf.{direction}.{mode}.b32", "b32", ["b32", "b32", "u32"])
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        yield instruction_case(f"prmt.b32{mode}", "b32", ["b32", "b32", "b32"])
    for table in (0x00, 0x1B, 0x96, 0xCA, 0xE8, 0xF7):
        yield instruction_case(
            f"lop3.b32.{table:02x}", "b32", ["b32"] * 3, f"lop3.b32 d, a, b, c, {table};"
        )
    for op in ("or", "and"):
        yield instruction_case(
            f"lop3.{op}.b32",
            "b32",
            ["b32"] * 3,
            f"setp.lt.s32 %q, c, 0; lop3.{op}.b32 %x|%p, a, b, c, 0x2d, %q; selp.b32 d, 1, 0, %p;"
            " xor.b32 d, d, %x;",
        )


ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


def compare_cases() -> Iterator[Case]:
    for kind in (*INTEGERS, "b16", "b32", "b64"):
        for relation in ("eq", "ne") if kind[0] == "b" else ORDERED:
            yield instruction_case(f"setp.{relation}.{kind}", "pred", [kind, kind])
        if kind[0] == "u":
            for relation in ("lo", "ls", "hi", "hs"):
                yield instruction_case(f"setp.{relation}.{kind}", "pred", [kind, kind])
    for kind in ("f32", "ftz.f32", "f64", "f16", "ftz.f16", "bf16"):
        for relation in ORDERED + UNORDERED:
            value = kind.removeprefix("ftz.")
            yield instruction_case(f"setp.{relation}.{kind}", "pred", [value, value])
    for kind in ("f16x2", "bf16x2"):
        for relation in ("lt", "geu", "nan"):
            yield instruction_case(
                f"setp.{relation}.{kind}",
                "b32",
                [kind, kind],
                f"setp.{relation}.{kind} %p|%q, a, b; selp.b32 d, 1, 0, %p; selp.b32 %x, 2, 0, %q;"
                " or.b32 d, d, %x;",
            )
    for op in ("and", "or", "xor"):
        yield instruction_case(
            f"setp.lt.{op}.s32",
            "b32",
            ["s32", "s32", "pred"],
            f"setp.lt.{op}.s32 %p|%q, a, b, !c; selp.b32 d, 1, 0, %p; selp.b32 %x, 2, 0, %q;"
            " or.b32 d, d, %x;",
        )
        yield instruction_case(
            f"setp.gt.{op}.f32",
            "b32",
            ["f32", "f32", "pred"],
            f"setp.gt.{op}.f32 %p|%q, a, b, c; selp.b32 d, 1, 0, %p; selp.b32 %x, 2, 0, %q;"
            " or.b32 d, d, %x;",
        )
    for result in ("u32", "s32", "f32"):
        for kind in ("s32", "u64", "f32", "f64"):
            yield instruction_case(f"set.lt.{result}.{kind}", result, [kind, kind])
            yield instruction_case(f"set.ge.and.{result}.{kind}", result, [kind, kind, "pred"])
    for name, result in (
        ("set.gtu.f16.f16", "f16"),
        ("set.lt.f16x2.f16x2", "f16x2"),
        ("set.eq.bf16x2.bf16x2", "bf16x2"),
        ("set.lt.bf16.bf16", "bf16"),
        ("set.ne.u32.f16", "u32"),
        ("set.ftz.lt.u32.f32", "u32"),
    ):
        kind = name.rsplit(".", 1)[1]
        yield instruction_case(name, result, [kind, kind])
    for kind in ("b16", "b32", "b64", "u16", "s32", "u64", "f32", "f64"):
        yield instruction_case(f"selp.{kind}", kind, [kind, kind, "pred"])
    for kind in ("b16", "u32", "s64", "f32", "f64"):
        for selector in ("s32", "f32"):
            yield instruction_case(f"slct.{kind}.{selector}", kind, [kind, kind, selector])
    yield instruction_case("slct.ftz.b32.f32", "b32", ["b32", "b32", "f32"])


def float_cases() -> Iterator[Case]:
    roundings = ("rn", "rz", "rm", "rp")
    for op in ("add", "sub", "mul"):
        yield instruction_case(f"{op}.f32", "f32", ["f32", "f32"])
        yield instruction_case(f"{op}.f64", "f64", ["f64", "f64"])
        for rounding in roundings:
            yield instruction_case(f"{op}.{rounding}.f64", "f64", ["f64", "f64"])
            for modifier in ("", ".ftz", ".sat", ".ftz.sat"):
                yield instruction_case(f"{op}.{rounding}{modifier}.f32", "f32", ["f32", "f32"])
    for rounding in roundings:
        for modifier in ("", ".ftz", ".sat", ".ftz.sat"):
            yield instruction_case(f"fma.{rounding}{modifier}.f32", "f32", ["f32"] * 3)
        yield instruction_case(f"mad.{rounding}.f32", "f32", ["f32"] * 3)
        yield instruction_case(f"fma.{rounding}.f64", "f64", ["f64"] * 3)
        yield instruction_case(f"div.{rounding}.f64", "f64", ["f64", "f64"])
        for modifier in ("", ".ftz"):
            yield instruction_case(f"div.{rounding}{modifier}.f32", "f32", ["f32", "f32"])
            for op in ("rcp", "sqrt"):
                yield instruction_case(f"{op}.{rounding}{modifier}.f32", "f32", ["f32"])
        for op in ("rcp", "sqrt"):
            yield instruction_case(f"{op}.{rounding}.f64", "f64", ["f64"])
    # Results at the border of the subnormal numbers: is a result flushed before or after rounding?
    border = (
        "and.b32 %x, %t, 15; add.u32 a, %x, 0x3f7ffff0; shr.u32 %x, %t, 4; and.b32 %x, %x, 7;"
        " add.u32 b, %x, 0x00800000;"
    )
    for modifier in (".rn", ".rz", ".rp", ".rn.ftz", ".rz.ftz", ".rp.ftz"):
        text = f"{border} mul{modifier}.f32 d, a, b;"
        yield instruction_case(f"mul{modifier}.f32/border", "f32", ["f32", "f32"], text)
        text = f"{border} fma{modifier}.f32 d, a, b, 0f00000000;"
        yield instruction_case(f"fma{modifier}.f32/border", "f32", ["f32", "f32"], text)
    for op in ("min", "max"):
        yield instruction_case(f"{op}.f64", "f64", ["f64", "f64"])
        for modifier in ("", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
            yield instruction_case(f"{op}{modifier}.f32", "f32", ["f32", "f32"])
    for op in ("abs", "neg"):
        for kind in ("f32", "ftz.f32", "f64"):
            value = kind.removeprefix("ftz.")
            yield instruction_case(f"{op}.{kind}", value, [value])
    for kind in ("f32", "f64"):
        yield instruction_case(f"copysign.{kind}", kind, [kind, kind])
        for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield instruction_case(f"testp.{test}.{kind}", "pred", [kind])


# Bounds from the PTX manual, as units in the last place of the result or as absolute errors.
APPROXIMATIONS = {
    "ex2.approx": Compare("ulp", "f32", 2),
    "lg2.approx": Compare("mixed", "f32", 2**-22),
    "rcp.approx": Compare("ulp", "f32", 1),
    "rsqrt.approx": Compare("ulp", "f32", 3),
    "sqrt.approx": Compare("ulp", "f32", 3),
    "sin.approx": Compare("absolute", "f32", 2**-20),
    "cos.approx": Compare("absolute", "f32", 2**-20),
}


def approximation_cases() -> Iterator[Case]:
    for op, compare in APPROXIMATIONS.items():
        for modifier in ("", ".ftz"):
            text = None
            if op in ("sin.approx", "cos.approx"):  # the bound holds within a few periods of zero
                text = (
                    "mul.f32 a, a, 0f3C000000; max.f32 a, a, 0fC0C00000; min.f32 a, a, 0f40C00000;"
                    f" {op}{modifier}.f32 d, a;"
                )
            yield instruction_case(f"{op}{modifier}.f32", "f32", ["f32"], text, compare)
    yield instruction_case(
        "tanh.approx.f32", "f32", ["f32"], compare=Compare("relative", "f32", 2**-10.9)
    )
    for op, tolerance in (("div.approx", 2), ("div.full", 2)):
        for modifier in ("", ".ftz"):
            yield instruction_case(
                f"{op}{modifier}.f32", "f32", ["f32", "f32"], compare=ulp("f32", tolerance)
            )
    yield instruction_case(
        "rcp.approx.ftz.f64", "f64", ["f64"], compare=Compare("relative", "f64", 2**-19)
    )
    yield instruction_case(
        "rsqrt.approx.ftz.f64", "f64", ["f64"], compare=Compare("relative", "f64", 2**-19)
    )
    for kind in ("f16", "f16x2"):
        yield instruction_case(f"ex2.approx.{kind}", kind, [kind], compare=ulp("f16", 2))
        yield instruction_case(
            f"tanh.approx.{kind}", kind, [kind], compare=Compare("relative", "f16", 2**-9.9)
        )
    for kind in ("bf16", "bf16x2"):
        yield instruction_case(
            f"ex2.approx.ftz.{kind}", kind, [kind], compare=Compare("relative", "bf16", 2**-7)
        )
        yield instruction_case(
            f"tanh.approx.{kind}", kind, [kind], compare=Compare("relative", "bf16", 2**-7)
        )


def half_cases() -> Iterator[Case]:
    for kind in ("f16", "f16x2"):
        for op in ("add", "sub", "mul"):
            for modifier in ("", ".rn", ".ftz", ".sat", ".rn.ftz.sat"):
                yield instruction_case(f"{op}{modifier}.{kind}", kind, [kind, kind])
        for modifier in ("", ".ftz", ".sat", ".ftz.sat", ".relu", ".ftz.relu"):
            yield instruction_case(f"fma.rn{modifier}.{kind}", kind, [kind] * 3)
        for modifier in ("", ".ftz"):
            for op in ("abs", "neg"):
                yield instruction_case(f"{op}{modifier}.{kind}", kind, [kind])
        for op in ("min", "max"):
            for modifier in ("", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
                yield instruction_case(f"{op}{modifier}.{kind}", kind, [kind, kind])
    for kind in ("bf16", "bf16x2"):
        for op in ("add", "sub", "mul"):
            for modifier in ("", ".rn"):
                yield instruction_case(f"{op}{modifier}.{kind}", kind, [kind, kind])
        for modifier in ("", ".relu", ".oob", ".oob.relu"):
            yield instruction_case(f"fma.rn{modifier}.{kind}", kind, [kind] * 3)
        for op in ("abs", "neg"):
            yield instruction_case(f"{op}.{kind}", kind, [kind])
        for op in ("min", "max"):
            for modifier in ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
                yield instruction_case(f"{op}{modifier}.{kind}", kind, [kind, kind])


GROUPS = {
    "integer": integer_cases,
    "carry": carry_cases,
    "bits": bit_cases,
    "comparison": compare_cases,
    "float": float_cases,
    "approximation": approximation_cases,
    "half": half_cases,
}
