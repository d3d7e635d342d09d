"""Where a call runs: the device, the stream and the memory that it may use."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from jfa import _core

_ALIGNMENT = 256  # of memory that is handed to the library

_emulated: ContextVar[str | None] = ContextVar("jfa_emulated", default=None)
# Memory is registered with a PTX machine for one call; calls that share tensors take turns.
_registering = threading.RLock()


@contextmanager
def emulated(architecture: str = "sm_90a") -> Iterator[None]:
    """Calls on CPU tensors inside run the GPU's kernels, on the PTX emulator.

    For tests and for finding faults: it is many thousand times slower than a GPU. Only forward
    calls have kernels.
    """
    device = f"emulated:{architecture}"
    _core.parse_device(device)
    token = _emulated.set(device)
    try:
        yield
    finally:
        _emulated.reset(token)


def on_device(device: torch.device) -> bool:
    """Whether a call on tensors of ``device`` runs kernels, not the CPU engine."""
    return device.type != "cpu" or _emulated.get() is not None


def stream_of(device: torch.device) -> int:
    """The address of the stream that PyTorch works on, 0 where there are no streams."""
    if device.type != "cuda":
        return 0
    index = torch.cuda.current_device() if device.index is None else device.index
    return torch._C._cuda_getCurrentRawStream(index)


def execution_on(device: torch.device, threads: int, strict_isolation: bool) -> _core.Execution:
    """How a call on tensors of ``device`` runs, on PyTorch's current stream."""
    execution = _core.Execution()
    execution.strict_isolation = strict_isolation
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        execution.device = _core.parse_device(f"cuda:{index}")
        execution.stream = stream_of(device)
        return execution
    if device.type != "cpu":
        raise _core.Unsupported(
            f"q: on {device}, but only tensors of cpu and cuda devices are supported; move q, k, "
            "v, offsets and biases with .cpu() or .cuda()"
        )
    execution.device = _core.parse_device(_emulated.get() or "cpu")
    execution.threads = threads if threads > 0 else torch.get_num_threads()
    if execution.threads <= torch.get_num_threads():  # more would be new threads for good
        execution.use_openmp()
    return execution


def execution_named(device: str, threads: int) -> _core.Execution:
    """How a call runs that brings its own tensors: on "cpu", "cuda:0", "emulated:sm_90a"."""
    if device == "cpu":
        return execution_on(torch.device("cpu"), threads, False)
    execution = _core.Execution()
    execution.device = _core.parse_device(device)
    execution.threads = threads
    return execution


def memory_on(device: torch.device, size: int) -> tuple[Tensor, int]:
    """``size`` bytes from PyTorch's allocator, and their address, as aligned as the library wants.

    The memory may be used by the work of the current stream until the tensor is gone.
    """
    memory = torch.empty(size + _ALIGNMENT, dtype=torch.uint8, device=device)
    return memory, -(-memory.data_ptr() // _ALIGNMENT) * _ALIGNMENT


@contextmanager
def reachable(execution: _core.Execution, tensors: Iterable[Tensor | None]) -> Iterator[None]:
    """A PTX machine reaches only the memory of ``tensors``, and only inside."""
    if _emulated.get() is None:
        yield
        return
    storages = {}
    for tensor in tensors:
        if isinstance(tensor, Tensor) and tensor.numel() > 0:
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    registered = []
    with _registering:
        try:
            for address, size in storages.items():
                _core.register_host(execution.device, address, size)
                registered.append(address)
            yield
        finally:
            for address in registered:
                _core.unregister_host(execution.device, address)
