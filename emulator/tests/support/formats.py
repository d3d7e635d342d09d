"""Number formats that NumPy lacks: bfloat16 and the two fp8 formats, as integer arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def to_bf16(values: Floats) -> NDArray[np.uint16]:
    """Nearest, ties to even. The values must be finite."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype(np.uint16)


def from_bf16(bits: NDArray[np.uint16]) -> Floats:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _fp8_table(exponent_bits: int, mantissa_bits: int, bias: int) -> Floats:
    codes = np.arange(256)
    mantissa = codes & ((1 << mantissa_bits) - 1)
    exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
    normal = (1.0 + mantissa / 2.0**mantissa_bits) * 2.0 ** (exponent - bias)
    subnormal = mantissa / 2.0**mantissa_bits * 2.0 ** (1 - bias)
    values = np.where(exponent == 0, subnormal, normal)
    return np.where(codes >= 128, -values, values).astype(np.float32)


#: Values of all codes; the codes of NaN and infinity are not meant to be used.
E4M3 = _fp8_table(4, 3, 7)
E5M2 = _fp8_table(5, 2, 15)


def random_fp8(
    rng: np.random.Generator, table: Floats, shape: tuple[int, ...]
) -> tuple[NDArray[np.uint8], Floats]:
    """Codes of magnitude at most 2 and their values."""
    codes = np.flatnonzero(np.abs(table) <= 2.0)
    chosen = rng.choice(codes, size=shape).astype(np.uint8)
    return chosen, table[chosen]
