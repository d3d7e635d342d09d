"""Compiles a Triton or Gluon kernel to sm_90a PTX on a machine without a GPU."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon import GluonASTSource

HOPPER = GPUTarget("cuda", 90, 32)


@dataclass(frozen=True)
class CompiledKernel:
    """PTX and what a launch needs to know about it."""

    name: str
    ptx: str
    shared_bytes: int
    warps: int
    cluster: int
    descriptors: list[dict[str, Any]]  # one per tensor-descriptor argument, in order


def compile_kernel(
    kernel: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any] | None = None,
    warps: int = 4,
    stages: int = 3,
    cluster: int = 1,
) -> CompiledKernel:
    """PTX of `kernel`.

    `signature` maps run-time arguments to Triton types ("*fp16", "i32",
    "tensordesc<fp16[128,64]>"); `constants` gives the compile-time ones. Pointers are declared
    multiples of 16, which the tests' allocations are.
    """
    constants = dict(constants or {})
    full_signature = {name: signature.get(name, "constexpr") for name in kernel.arg_names}
    aligned = {
        (index,): [["tt.divisibility", 16]]
        for index, name in enumerate(kernel.arg_names)
        if full_signature[name].startswith("*")
    }
    source_type = GluonASTSource if kernel.is_gluon() else ASTSource
    source = source_type(kernel, full_signature, constexprs=constants, attrs=aligned)
    options = {"num_warps": warps, "num_stages": stages, "num_ctas": cluster}
    compiled = triton.compile(source, target=HOPPER, options=options)
    metadata = compiled.metadata
    if metadata.global_scratch_size or metadata.profile_scratch_size:
        raise ValueError(
            f"{kernel.__name__} wants a scratch buffer, which the tests do not provide"
        )
    return CompiledKernel(
        name=metadata.name,
        ptx=compiled.asm["ptx"],
        shared_bytes=metadata.shared,
        warps=metadata.num_warps,
        cluster=metadata.num_ctas,
        descriptors=list(metadata.tensordesc_meta or []),
    )
