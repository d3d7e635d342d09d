"""Launches a compiled Triton kernel in the emulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from compiler import CompiledKernel
from emulated import Argument, Input, Output, Run, Scalar, TensorMap, run_kernel
from ptxemu import Settings

#: Triton numbers these element types as the device does, the driver's enumeration differs.
_DRIVER_TYPE = {8: 10, 9: 8, 10: 9}


def descriptor(kernel: CompiledKernel, index: int, base: str, element_bytes: int) -> TensorMap:
    """The tensor map that Triton wants for its `index`-th descriptor argument."""
    wanted = kernel.descriptors[index]
    return TensorMap(
        base=base,
        box=tuple(wanted["block_size"]),
        type=_DRIVER_TYPE.get(wanted["elem_type"], wanted["elem_type"]),
        swizzle=wanted["swizzle"],
        element_bytes=element_bytes,
    )


def launch(
    kernel: CompiledKernel,
    arrays: Mapping[str, Argument],
    arguments: Sequence[str | Scalar],
    *,
    grid: Sequence[int],
    settings: Settings,
) -> Run:
    """Runs `kernel`.

    `arguments` are its run-time arguments: names of arrays, scalars, or "@name" for a descriptor of
    an array, which Triton expands to map, shape and strides.
    """
    everything: dict[str, Argument] = dict(arrays)
    parameters: list[str | Scalar] = []
    descriptors = 0
    for argument in arguments:
        if isinstance(argument, str) and argument.startswith("@"):
            base = argument[1:]
            shape, item = _shape_and_item(arrays[base])
            key = f"{argument}#{descriptors}"
            everything[key] = descriptor(kernel, descriptors, base, item)
            descriptors += 1
            parameters.append(key)
            parameters.extend(np.int32(extent) for extent in shape)
            strides = [1]
            for extent in reversed(shape[1:]):
                strides.insert(0, strides[0] * extent)
            parameters.extend(np.int64(stride) for stride in strides)
        else:
            parameters.append(argument)
    parameters += [np.uint64(0), np.uint64(0)]  # scratch buffers, unused
    return run_kernel(
        kernel.ptx,
        kernel.name,
        everything,
        grid=[grid[0] * kernel.cluster, *grid[1:]],
        block=kernel.warps * 32,
        cluster=kernel.cluster,
        shared_bytes=kernel.shared_bytes,
        parameters=parameters,
        settings=settings,
        name=f"{kernel.name}.ptx",
    )


def _shape_and_item(argument: Argument) -> tuple[tuple[int, ...], int]:
    if isinstance(argument, Input):
        return argument.array.shape, argument.array.dtype.itemsize
    if isinstance(argument, Output):
        return argument.shape, np.dtype(argument.dtype).itemsize
    raise TypeError("a descriptor needs an array")
