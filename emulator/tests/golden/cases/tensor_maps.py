"""Argument lists for cuTensorMapEncodeTiled, one field changed at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

BASE_ADDRESS = 0x7F0000000000


@dataclass(frozen=True)
class EncodeCall:
    """Arguments in the driver's order. Strides in bytes for dimensions 1.. ."""

    type: int = 9
    rank: int = 5
    address: int = BASE_ADDRESS
    size: tuple[int, ...] = (64, 128, 3, 5, 7)
    stride: tuple[int, ...] = (4096, 1 << 16, 1 << 20, 1 << 24)
    box: tuple[int, ...] = (32, 16, 2, 3, 1)
    element_stride: tuple[int, ...] = (1, 1, 1, 1, 1)
    interleave: int = 0
    swizzle: int = 3
    l2: int = 0
    fill: int = 0


def _changed(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*values[:index], value, *values[index + 1 :])


def encode_calls() -> Iterator[EncodeCall]:
    base = EncodeCall()
    yield base
    for kind in range(16):
        for fill in (0, 1):
            yield replace(base, type=kind, box=(16, *base.box[1:]), fill=fill)
    for rank in range(7):
        yield replace(base, rank=rank)
    for swizzle in range(8):
        for inner in (8, 16, 24, 32, 64, 128):
            yield replace(base, swizzle=swizzle, box=(inner, *base.box[1:]))
    for interleave in range(4):
        for swizzle in range(4):
            yield replace(base, interleave=interleave, swizzle=swizzle, box=(16, *base.box[1:]))
        yield replace(base, interleave=interleave, swizzle=1, box=(16, *base.box[1:]), rank=2)
        yield replace(
            base,
            interleave=interleave,
            swizzle=1,
            box=(16, *base.box[1:]),
            address=base.address + 16,
        )
    for l2 in range(5):
        yield replace(base, l2=l2)
    yield replace(base, fill=2)
    for offset in (1, 8, 16, 32, -16, 1 << 40):
        yield replace(base, address=base.address + offset)
    yield replace(base, address=0)
    yield replace(base, address=16)
    yield replace(base, address=(1 << 64) - (1 << 20))
    for d in range(5):
        for value in (0, 1, 65, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 1):
            yield replace(base, size=_changed(base.size, d, value))
        for value in (0, 1, 5, 7, 8, 15, 24, 255, 256, 257):
            yield replace(base, box=_changed(base.box, d, value), swizzle=0)
        for value in (0, 1, 2, 3, 5, 8, 9):
            yield replace(base, element_stride=_changed(base.element_stride, d, value))
            yield replace(
                base,
                element_stride=_changed(base.element_stride, d, value),
                interleave=1,
                swizzle=0,
            )
    for d in range(4):
        for value in (
            0,
            8,
            16,
            24,
            32,
            48,
            1 << 20,
            (1 << 36) + 16,
            (1 << 39) + (1 << 38),
            (1 << 40) - 16,
            1 << 40,
            (1 << 40) + 16,
        ):
            yield replace(base, stride=_changed(base.stride, d, value))
    yield replace(base, box=(64, 256, 256, 1, 1))
    yield replace(base, box=(64, 256, 256, 256, 256))
    for size in ((64, 64), (64, 1023), (64, 1024), (60, 70), (1, 1)):
        yield replace(
            base,
            rank=2,
            size=(*size, 1, 1, 1),
            stride=(128, *base.stride[1:]),
            box=(64, 64, 1, 1, 1),
        )
    s = 128
    yield replace(
        base,
        rank=4,
        size=(64, 1 << 30, (1 << 31) - 1, (1 << 31) - 1, 1),
        stride=(s, (1 << 35) - s, s, 0),
        box=(64, 64, 1, 1, 1),
    )
    for bit in (46, 47, 48, 49, 52, 55, 56, 57, 60, 62, 63):
        yield replace(base, address=1 << bit)
        yield replace(base, address=(1 << bit) - 4096)
    for inner, rows, planes in (
        (256, 227, 4),
        (256, 228, 4),
        (256, 255, 4),
        (256, 256, 4),
        (256, 205, 5),
        (16, 8, 256),
    ):
        yield replace(base, type=0, swizzle=0, box=(inner, rows, planes, 1, 1))
    for stride in (1, 2, 8):
        yield replace(base, box=(32, 256, 8, 3, 1), element_stride=(1, stride, 1, 1, 1))
