"""`cvt` in every form that sm_90a has."""

from __future__ import annotations

from collections.abc import Iterator

from .alu import instruction_case
from .case import Case

INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
TO_FLOAT = ("rn", "rz", "rm", "rp")
TO_INTEGER = ("rni", "rzi", "rmi", "rpi")


def convert(name: str, result: str, source: str) -> Case:
    return instruction_case(f"cvt.{name}", result, [source])


def integer_cases() -> Iterator[Case]:
    for result in INTEGERS:
        for source in INTEGERS:
            # A narrow result is stored from a 16- or 32-bit register, so the extension is visible.
            wide = {"u8": "u32", "s8": "s32"}.get(result, result)
            for saturate in ("", ".sat"):
                yield convert(
                    f"{saturate[1:] + '.' if saturate else ''}{result}.{source}", wide, source
                )
        for source in ("f16", "bf16", "f32", "f64"):
            wide = {"u8": "u32", "s8": "s32"}.get(result, result)
            for rounding in TO_INTEGER:
                yield convert(f"{rounding}.{result}.{source}", wide, source)
            yield convert(f"rni.sat.{result}.{source}", wide, source)
            if source == "f32":
                yield convert(f"rpi.ftz.{result}.{source}", wide, source)
        for target in ("f16", "bf16", "f32", "f64"):
            for rounding in TO_FLOAT:
                yield convert(f"{rounding}.{target}.{result}", target, result)
    for result in ("u16", "s16"):
        yield instruction_case(f"cvt.pack.sat.{result}.s32", "b32", ["s32", "s32"])
    for result in ("u8", "s8"):
        yield instruction_case(f"cvt.pack.sat.{result}.s32.b32", "b32", ["s32", "s32", "b32"])


def float_cases() -> Iterator[Case]:
    for rounding in TO_FLOAT:
        for modifier in ("", ".ftz", ".sat"):
            yield convert(f"{rounding}{modifier}.f32.f64", "f32", "f64")
        yield convert(f"{rounding}.f16.f64", "f16", "f64")
        yield convert(f"{rounding}.bf16.f64", "bf16", "f64")
        yield convert(f"{rounding}.ftz.f16.f32", "f16", "f32")
    for target in ("f16", "bf16"):
        for rounding in TO_FLOAT:
            for modifier in ("", ".relu", ".sat", ".satfinite", ".relu.satfinite"):
                yield convert(f"{rounding}{modifier}.{target}.f32", target, "f32")
        for rounding in ("rn", "rz"):
            for modifier in ("", ".relu", ".satfinite", ".relu.satfinite"):
                yield instruction_case(
                    f"cvt.{rounding}{modifier}.{target}x2.f32", f"{target}x2", ["f32", "f32"]
                )
        for source in ("f32", "f64"):
            yield convert(f"{source}.{target}", source, target)
        yield convert(f"sat.f32.{target}", "f32", target)
        for rounding in TO_INTEGER:
            yield convert(f"{rounding}.{target}.{target}", target, target)
    yield convert("ftz.f32.f16", "f32", "f16")
    yield convert("f64.f32", "f64", "f32")
    yield convert("ftz.f64.f32", "f64", "f32")
    for kind in ("f32", "f64"):
        for rounding in TO_INTEGER:
            for modifier in ("", ".sat") + ((".ftz",) if kind == "f32" else ()):
                yield convert(f"{rounding}{modifier}.{kind}.{kind}", kind, kind)
    yield convert("sat.f32.f32", "f32", "f32")
    yield convert("ftz.f32.f32", "f32", "f32")
    for a, b in (("f16", "bf16"), ("bf16", "f16")):
        for rounding in TO_FLOAT:
            yield convert(f"{rounding}.{a}.{b}", a, b)


def narrow_cases() -> Iterator[Case]:
    for rounding in ("rna", "rn", "rz"):
        for modifier in ("", ".relu", ".satfinite", ".relu.satfinite"):
            yield convert(f"{rounding}{modifier}.tf32.f32", "f32", "f32")
    for narrow in ("e4m3x2", "e5m2x2"):
        for modifier in ("", ".relu"):
            yield instruction_case(
                f"cvt.rn.satfinite{modifier}.{narrow}.f32", "b16", ["f32", "f32"]
            )
            yield instruction_case(f"cvt.rn.satfinite{modifier}.{narrow}.f16x2", "b16", ["f16x2"])
            yield instruction_case(f"cvt.rn{modifier}.f16x2.{narrow}", "f16x2", [narrow])


GROUPS = {
    "convert_integer": integer_cases,
    "convert_float": float_cases,
    "convert_narrow": narrow_cases,
}
