"""What a golden case is: a PTX kernel, reproducible arguments, and how its result is compared.

Inputs come from seeded generators, so only outputs are stored. Nothing here needs a GPU.
"""

from __future__ import annotations

import random
import re
import struct
from dataclasses import dataclass, field
from functools import lru_cache

PTX_HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"
POISON = 0xCD  # byte that fills outputs before a launch

WIDTH = {  # bytes of a value
    "u8": 1,
    "s8": 1,
    "b8": 1,
    "e4m3": 1,
    "e5m2": 1,
    "u16": 2,
    "s16": 2,
    "b16": 2,
    "f16": 2,
    "bf16": 2,
    "e4m3x2": 2,
    "e5m2x2": 2,
    "u32": 4,
    "s32": 4,
    "b32": 4,
    "f32": 4,
    "tf32": 4,
    "f16x2": 4,
    "bf16x2": 4,
    "u16x2": 4,
    "s16x2": 4,
    "u64": 8,
    "s64": 8,
    "b64": 8,
    "f64": 8,
    "b128": 16,
    "pred": 4,
}


@dataclass(frozen=True)
class Input:
    """Bytes that exist before the launch: `values` of one kind from a seed, see `input_bytes`."""

    kind: str
    count: int
    seed: str


@dataclass(frozen=True)
class Buffer:
    """Global memory passed by address; starts as `initial`, else as poison."""

    size: int
    initial: Input | None = None
    output: bool = False


@dataclass(frozen=True)
class Word:
    """A 32- or 64-bit integer argument."""

    value: int
    bits: int = 64


@dataclass(frozen=True)
class TensorMap:
    """A tensor map of `buffer` (index of the argument that is the tensor), passed by value.

    Sizes and boxes in elements, strides in bytes for dimensions 1.., enumerators as the driver's
    numbers.
    """

    buffer: int
    type: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    box: tuple[int, ...]
    element_stride: tuple[int, ...] = ()
    swizzle: int = 0
    fill: int = 0
    byte_offset: int = 0  # of the map's base address in the buffer; may be negative (ragged maps)

    def element_strides(self) -> tuple[int, ...]:
        return self.element_stride or (1,) * len(self.size)


@dataclass(frozen=True)
class Compare:
    """exact, digest (exact, stored as one hash per 256 bytes), or per element with a bound.

    The bounds are ulp, absolute, relative, or mixed (relative to the larger of one and the
    magnitude); all NaNs count as equal there.
    """

    mode: str = "exact"
    element: str = "b32"
    tolerance: float = 0.0


Argument = Buffer | Word | TensorMap


@dataclass
class Case:
    """One launch. `kernel` names an entry of `ptx`; several cases may share a kernel."""

    name: str
    kernel: str
    ptx: str
    arguments: list[Argument]
    block: int = 128
    grid: int = 1
    cluster: int = 1
    shared: int = 0
    compare: Compare = field(default_factory=Compare)


SPECIAL = {
    "i": [0, 1, -1, 2, 7, 31, 32, 33, 0x80, 0x7F, 0xFFFF, 0x8000, 0x7FFF, 100, -100, 12345],
    "f32": [
        0x00000000,
        0x80000000,
        0x3F800000,
        0xBFC00000,
        0x7F800000,
        0xFF800000,
        0x7FC00001,
        0x00000001,
        0x807FFFFF,
        0x00800000,
        0x7F7FFFFF,
        0x40200000,
        0xBF000000,
        0x4F000000,
        0x477FF000,
        0x43E40000,
    ],
    "f64": [
        0x0000000000000000,
        0x8000000000000000,
        0x3FF0000000000000,
        0xBFF8000000000000,
        0x7FF0000000000000,
        0xFFF0000000000000,
        0x7FF8000000000001,
        0x0000000000000001,
        0x800FFFFFFFFFFFFF,
        0x0010000000000000,
        0x7FEFFFFFFFFFFFFF,
        0x4004000000000000,
        0xBFE0000000000000,
        0x41E0000000000000,
        0x43E0000000000000,
        0x36A0000000000000,
    ],
    "f16": [
        0x0000,
        0x8000,
        0x3C00,
        0xBE00,
        0x7C00,
        0xFC00,
        0x7E01,
        0x0001,
        0x83FF,
        0x0400,
        0x7BFF,
        0x4100,
        0xB800,
        0x5C00,
        0x3BFF,
        0x7800,
    ],
    "bf16": [
        0x0000,
        0x8000,
        0x3F80,
        0xBFC0,
        0x7F80,
        0xFF80,
        0x7FC1,
        0x0001,
        0x807F,
        0x0080,
        0x7F7F,
        0x4020,
        0xBF00,
        0x4F00,
        0x477F,
        0x43E4,
    ],
}


def _near_one(rng: random.Random, exponent_bits: int, mantissa_bits: int, spread: int) -> int:
    """A float with a random sign and mantissa whose exponent is within `spread` of one's."""
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = bias + rng.getrandbits(16) % (2 * spread + 1) - spread
    sign = rng.getrandbits(1) << (exponent_bits + mantissa_bits)
    return sign | exponent << mantissa_bits | rng.getrandbits(mantissa_bits)


def _random_value(kind: str, rng: random.Random) -> int:
    bits = 8 * WIDTH[kind]
    if kind == "f32":
        return _near_one(rng, 8, 23, 12) if rng.getrandbits(2) else rng.getrandbits(32)
    if kind == "f64":
        return _near_one(rng, 11, 52, 40) if rng.getrandbits(2) else rng.getrandbits(64)
    if kind == "f16":
        return _near_one(rng, 5, 10, 6) if rng.getrandbits(2) else rng.getrandbits(16)
    if kind == "bf16":
        return _near_one(rng, 8, 7, 8) if rng.getrandbits(2) else rng.getrandbits(16)
    if kind[0] in "us" and rng.getrandbits(2) == 0:
        return rng.getrandbits(1 + rng.getrandbits(6) % bits)  # small numbers too
    return rng.getrandbits(bits)


def _special(kind: str, index: int) -> int:
    pool = SPECIAL.get(kind, SPECIAL["i"])
    bits = 8 * WIDTH[kind]
    value = pool[index % len(pool)]
    if pool is SPECIAL["i"] and index % len(pool) in (11, 12):
        value = (1 << (bits - 1)) - (index % len(pool) == 12)  # the type's own extremes
    return value & ((1 << bits) - 1)


def operand(kind: str, position: int, thread: int, rng: random.Random) -> int:
    """One operand: threads 0..63 walk through pairs of special values, the others are random."""
    if kind in ("f16x2", "bf16x2", "u16x2", "s16x2"):
        half = kind[:-2]
        return (
            operand(half, position, thread, rng)
            | operand(half, position, (thread * 5 + 3) % 128, rng) << 16
        )
    if thread < 64 and position < 2:
        return _special(kind, thread % 16 if position == 0 else thread // 16 * 5 + thread)
    if thread < 64 and rng.getrandbits(1):
        return _special(kind, rng.getrandbits(4))
    return _random_value(kind, rng)


def _small_integer(kind: str, rng: random.Random) -> int:
    """An integer in -4..4 (unsigned: 0..4) in `kind`, so that tensor-core sums are exact."""
    value = rng.getrandbits(16) % 9 - 4
    if kind == "u8":
        return abs(value)
    if kind in ("s8", "s32"):
        return value & ((1 << (8 * WIDTH[kind])) - 1)
    return encode_float(kind, float(value))


def _real(kind: str, rng: random.Random) -> int:
    """A real number of magnitude 2^-2 .. 1, every mantissa bit random."""
    exponent_bits, mantissa_bits = {
        "f32": (8, 23),
        "tf32": (8, 23),
        "f16": (5, 10),
        "bf16": (8, 7),
        "e4m3": (4, 3),
        "e5m2": (5, 2),
        "f64": (11, 52),
    }[kind]
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = bias - 2 + rng.getrandbits(1)
    return (rng.getrandbits(1) << exponent_bits | exponent) << mantissa_bits | rng.getrandbits(
        mantissa_bits
    )


def encode_float(kind: str, value: float) -> int:
    """Bits of a number that `kind` represents exactly."""
    if kind in ("f32", "tf32"):
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    if kind == "f64":
        return int(struct.unpack("<Q", struct.pack("<d", value))[0])
    if kind == "bf16":
        return encode_float("f32", value) >> 16
    half = int(struct.unpack("<H", struct.pack("<e", value))[0])
    if kind == "f16":
        return half
    if kind == "e5m2":
        return half >> 8
    # e4m3: rebias from f16 (15) to 7, three mantissa bits; zero stays zero.
    magnitude = half & 0x7FFF
    return (half >> 8 & 0x80) | ((magnitude >> 7) - (8 << 3) if magnitude else 0)


@lru_cache(maxsize=64)
def input_bytes(source: Input) -> bytes:
    """The bytes of an input.

    Kinds: `operands:T,T,…` (8-byte slots per thread), `small:T`, `real:T`, `random:T`, `ramp`.
    """
    rng = random.Random(f"{source.kind}/{source.seed}")
    form, _, kinds = source.kind.partition(":")
    if form == "concat":  # kind:type#count#seed parts joined by +
        parts = [part.split("#") for part in kinds.split("+")]
        return b"".join(input_bytes(Input(kind, int(count), seed)) for kind, count, seed in parts)
    if form == "ramp":
        return b"".join(struct.pack("<I", i) for i in range(source.count))
    if form == "operands":
        slots = [
            operand(kind, position, thread, rng)
            for thread in range(source.count)
            for position, kind in enumerate(kinds.split(","))
        ]
        return struct.pack(f"<{len(slots)}Q", *slots)
    make = {"small": _small_integer, "real": _real, "random": _random_value}[form]
    values = [make(kinds, rng) for _ in range(source.count)]
    code = {1: "B", 2: "H", 4: "I", 8: "Q"}[WIDTH[kinds]]
    return struct.pack(f"<{len(values)}{code}", *values)


def digest(data: bytes) -> bytes:
    """One 32-bit FNV-1a hash per 256 bytes."""
    hashes = []
    for start in range(0, len(data), 256):
        value = 0x811C9DC5
        for byte in data[start : start + 256]:
            value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
        hashes.append(value)
    return struct.pack(f"<{len(hashes)}I", *hashes)


def entry(name: str, parameters: list[str], body: str, directives: str = "") -> str:
    """An entry function. Parameters are PTX declarations without the `.param`."""
    listed = ", ".join(f".param {text}" for text in parameters)
    return f".visible .entry {name}({listed}) {directives}\n{{\n{body}\nret;\n}}\n"


def identifier(text: str) -> str:
    """`text` as part of a PTX identifier."""
    return re.sub(r"\W", "_", text.replace("-", "m"))
