"""Compiles CUDA C++ to PTX with NVRTC, without a GPU."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from pathlib import Path


class CompileError(Exception):
    """The compiler's log."""


def _candidates() -> list[str]:
    found: list[str] = []
    package = importlib.util.find_spec("nvidia")
    for folder in (
        package.submodule_search_locations if package and package.submodule_search_locations else []
    ):
        found += [str(path) for path in sorted(Path(folder).glob("**/libnvrtc.so.*"))]
    return [*found, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]


@cache
def library() -> ctypes.CDLL | None:
    """NVRTC from the Python package nvidia-cuda-nvrtc or from the system; None if there is none."""
    for name in _candidates():
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _check(nvrtc: ctypes.CDLL, status: int) -> None:
    if status != 0:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise CompileError(nvrtc.nvrtcGetErrorString(status).decode())


def compile_ptx(source: str, name: str, headers: dict[str, str]) -> str:
    """PTX for sm_90a with source lines. `headers` are what `#include "…"` may name."""
    nvrtc = library()
    if nvrtc is None:
        raise CompileError("libnvrtc is not installed (Python package nvidia-cuda-nvrtc)")
    program = ctypes.c_void_p()
    count = len(headers)
    texts = (ctypes.c_char_p * count)(*(text.encode() for text in headers.values()))
    names = (ctypes.c_char_p * count)(*(key.encode() for key in headers))
    _check(
        nvrtc,
        nvrtc.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), name.encode(), count, texts, names
        ),
    )
    options = [b"--gpu-architecture=compute_90a", b"--std=c++17", b"-lineinfo", b"-default-device"]
    status = nvrtc.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    size = ctypes.c_size_t()
    if status != 0:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise CompileError(log.value.decode())
    _check(nvrtc, nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _check(nvrtc, nvrtc.nvrtcGetPTX(program, text))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return text.value.decode()
