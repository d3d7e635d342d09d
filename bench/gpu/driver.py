"""Kernels compiled with nvcc and launched through the CUDA driver, for the benchmarks beside it."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]


def compile_cubin(source: Path, kernels: Path = ROOT / "kernels") -> bytes:
    """The code of ``source`` for sm_90a; ``kernels`` is what it includes."""
    with tempfile.TemporaryDirectory() as name:
        cubin = Path(name) / "kernel.cubin"
        subprocess.run(
            [
                *("nvcc", "-gencode=arch=compute_90a,code=sm_90a", "-std=c++20", "-O3"),
                *("-lineinfo", "-cubin", f"-I{kernels}", "-o", cubin, source),
            ],
            check=True,
        )
        return cubin.read_bytes()


def event_milliseconds(call: Callable[[], object]) -> float:
    """The time of one call on the current stream."""
    start, end = (
        torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        for _ in range(2)
    )
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))


class TensorMap(ctypes.Structure):
    _fields_ = (("opaque", ctypes.c_uint64 * 16),)


class Driver:
    def __init__(self) -> None:
        torch.zeros(1, device="cuda")  # makes the context current
        self._library = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else status}")

    def load(self, cubin: bytes, shared_bytes: int) -> ctypes.c_void_p:
        """The only kernel of a cubin."""
        module, kernel = ctypes.c_void_p(), (ctypes.c_void_p * 1)()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        self.call("cuModuleEnumerateFunctions", kernel, 1, module)
        function = ctypes.c_void_p(kernel[0])
        max_dynamic_shared_bytes = 8
        self.call("cuFuncSetAttribute", function, max_dynamic_shared_bytes, shared_bytes)
        return function

    def encode(
        self,
        tensor: torch.Tensor,
        sizes: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
    ) -> TensorMap:
        """A map of bfloat16 with 128-byte swizzle; strides in bytes, of all dimensions but the
        first.
        """
        rank = len(sizes)
        storage = ctypes.create_string_buffer(192)
        aligned = (ctypes.addressof(storage) + 63) // 64 * 64
        bf16, swizzle_128, l2_128 = 9, 3, 2
        self.call(
            "cuTensorMapEncodeTiled",
            *(ctypes.c_void_p(aligned), bf16, rank, ctypes.c_void_p(tensor.data_ptr())),
            *((ctypes.c_uint64 * rank)(*sizes), (ctypes.c_uint64 * (rank - 1))(*strides)),
            *((ctypes.c_uint32 * rank)(*box), (ctypes.c_uint32 * rank)(*[1] * rank)),
            *(0, swizzle_128, l2_128, 0),
        )
        result = TensorMap()
        ctypes.memmove(ctypes.byref(result), aligned, 128)
        return result
