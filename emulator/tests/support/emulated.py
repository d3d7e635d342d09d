"""Runs a kernel in the emulator on NumPy arrays: memory, parameters, tensor maps, schedules."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import ptxemu
from numpy.typing import NDArray

#: Every order of asynchronous work that the tests try: (schedule, seed). The environment variable
#: PTXEMU_TEST_SEEDS sets how many random ones.
SCHEDULES: list[tuple[str, int]] = [
    ("eager", 1),
    ("lazy", 1),
    ("reverse", 1),
    *(("random", seed) for seed in range(1, int(os.environ.get("PTXEMU_TEST_SEEDS", "3")) + 1)),
]

Array = NDArray[Any]


@dataclass(frozen=True)
class Input:
    """An array that the kernel reads; with `writable`, also one that it changes (read it back)."""

    array: Array
    writable: bool = False


@dataclass(frozen=True)
class Output:
    """An array that the kernel writes; not initialised, so that unwritten bytes are noticed."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic] | type[np.generic]


@dataclass(frozen=True)
class TensorMap:
    """A tensor map over another argument; `box` follows the array's dimensions (last = inner).

    `type` and `swizzle` are the driver's numbers (CUtensorMapDataType, CUtensorMapSwizzle).
    """

    base: str
    box: tuple[int, ...]
    type: int
    swizzle: int = 0
    shape: tuple[int, ...] | None = None  #: elements; None = the base array's
    element_bytes: int | None = None


Scalar = np.generic
Argument = Input | Output | TensorMap | Scalar


@dataclass
class Run:
    """What a launch left behind."""

    result: ptxemu.LaunchResult
    arrays: dict[str, Array] = field(default_factory=dict)

    def reports(self) -> str:
        return "\n".join(str(report) for report in self.result.reports)


def settings_for(schedule: tuple[str, int], checks: bool = True) -> ptxemu.Settings:
    settings = ptxemu.Settings()
    settings.schedule, settings.seed = schedule
    settings.elect_lane = "lowest" if settings.seed % 2 else "highest"
    settings.races = settings.uninitialised = settings.protocol = checks
    settings.time_budget_seconds = 60.0
    return settings


def _encode(device_map: TensorMap, address: int, array_shape: tuple[int, ...], item: int) -> bytes:
    shape = device_map.shape or array_shape
    item = device_map.element_bytes or item
    strides = [item]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return bytes(
        ptxemu.encode_tensor_map(
            device_map.type,
            address,
            list(reversed(shape)),
            strides,
            list(reversed(device_map.box)),
            device_map.swizzle,
        )
    )


def run_kernel(
    ptx: str,
    kernel: str,
    arguments: Mapping[str, Argument],
    *,
    grid: Sequence[int],
    block: int,
    cluster: int = 1,
    shared_bytes: int = 0,
    parameters: Sequence[str | Scalar] | None = None,
    settings: ptxemu.Settings | None = None,
    name: str = "kernel.ptx",
) -> Run:
    """Launches `kernel` once.

    `arguments` are allocated in order; `parameters` lists the kernel's parameters (names of
    arguments, or scalars), by default all arguments in order.
    """
    device = ptxemu.Device(settings or settings_for(("eager", 1)))
    module = device.load(ptx, name)
    address: dict[str, int] = {}
    arrays: dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]] = {}
    for key, argument in arguments.items():
        if isinstance(argument, Input):
            data = np.ascontiguousarray(argument.array)
            address[key] = device.allocate(max(data.nbytes, 1))
            device.write(address[key], data.tobytes())
            arrays[key] = (data.shape, data.dtype)
        elif isinstance(argument, Output):
            dtype = np.dtype(argument.dtype)
            address[key] = device.allocate(int(np.prod(argument.shape)) * dtype.itemsize)
            arrays[key] = (argument.shape, dtype)

    packed = bytearray(module.parameter_bytes(kernel))
    infos = module.parameters(kernel)
    listed = list(arguments) if parameters is None else list(parameters)
    if len(listed) != len(infos):
        raise ValueError(f"{kernel} has {len(infos)} parameters, {len(listed)} given")
    for info, entry in zip(infos, listed, strict=True):
        value = arguments[entry] if isinstance(entry, str) else entry
        if isinstance(value, TensorMap):
            shape, dtype = arrays[value.base]
            data_bytes = _encode(value, address[value.base], shape, dtype.itemsize)
        elif isinstance(value, np.generic):
            data_bytes = value.tobytes()
        else:
            data_bytes = struct.pack("<Q", address[str(entry)])
        if len(data_bytes) != info.bytes:
            raise ValueError(
                f"parameter {info.name} has {info.bytes} bytes, {len(data_bytes)} given"
            )
        packed[info.offset : info.offset + info.bytes] = data_bytes

    triple = tuple(grid) + (1,) * (3 - len(grid))
    result = device.launch(
        module, kernel, triple, (block, 1, 1), (cluster, 1, 1), shared_bytes, bytes(packed)
    )
    run = Run(result)
    for key, argument in arguments.items():
        if isinstance(argument, Output) or (isinstance(argument, Input) and argument.writable):
            shape, dtype = arrays[key]
            count = int(np.prod(shape)) * dtype.itemsize
            raw = np.frombuffer(device.read(address[key], count), dtype=dtype)
            run.arrays[key] = raw.reshape(shape).copy()
    return run
