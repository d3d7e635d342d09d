#!/usr/bin/env python3
"""Records the golden outputs on a GPU with compute capability 9.0.

    python3 record.py --output DIRECTORY [GROUP ...]   record (default: all groups)
    python3 record.py --check [GROUP ...]              assemble with ptxas, rewrite rejected.txt

Needs Python and the driver library, nothing else. A case that faults or hangs is recorded as such
and does not disturb the others: each group runs in a process of its own, which is started again
behind the offending case.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import subprocess
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cases.case import POISON, PTX_HEADER, Buffer, Case, TensorMap, Word, digest, input_bytes
from cases.catalogue import GROUPS, REJECTED, accepted, candidates
from cases.tensor_maps import EncodeCall, encode_calls

TENSOR_MAPS = "tensor_maps"
HANG_SECONDS = 40.0


class Driver:
    """The few driver calls that are needed; a failure raises RuntimeError with the error's name."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'?').decode()}")

    def load(self, ptx: str) -> ctypes.c_void_p:
        module = ctypes.c_void_p()
        log = ctypes.create_string_buffer(1 << 16)
        options = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER and its size
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), ctypes.c_void_p(len(log)))
        try:
            self.call(
                "cuModuleLoadDataEx", ctypes.byref(module), ptx.encode() + b"\0", 2, options, values
            )
        except RuntimeError as error:
            raise RuntimeError(f"{error}: {log.value.decode()}") from error
        return module

    def allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def encode(self, call: EncodeCall) -> tuple[int, bytes]:
        """Return code and the 128 bytes, from 64-byte aligned memory."""
        raw = ctypes.create_string_buffer(128 + 64)
        address = (ctypes.addressof(raw) + 63) // 64 * 64
        function = self.library.cuTensorMapEncodeTiled
        code = function(
            ctypes.c_void_p(address),
            ctypes.c_int(call.type),
            ctypes.c_uint32(call.rank),
            ctypes.c_void_p(call.address),
            (ctypes.c_uint64 * 8)(*call.size),
            (ctypes.c_uint64 * 8)(*call.stride),
            (ctypes.c_uint32 * 8)(*call.box),
            (ctypes.c_uint32 * 8)(*call.element_stride),
            ctypes.c_int(call.interleave),
            ctypes.c_int(call.swizzle),
            ctypes.c_int(call.l2),
            ctypes.c_int(call.fill),
        )
        return code, ctypes.string_at(address, 128)


def run_case(driver: Driver, function: ctypes.c_void_p, case: Case) -> bytes:
    """Launches one case on fresh memory and returns the bytes of its output buffers."""
    values: list[ctypes.Array[ctypes.c_char]] = []
    buffers: list[tuple[int, int, Buffer]] = []
    addresses: dict[int, int] = {}
    for index, argument in enumerate(case.arguments):
        if isinstance(argument, Buffer):
            initial = input_bytes(argument.initial) if argument.initial else b""
            size = max(argument.size, len(initial))
            address = driver.allocate(size)
            driver.call(
                "cuMemsetD8_v2",
                ctypes.c_uint64(address),
                ctypes.c_ubyte(POISON),
                ctypes.c_size_t(size),
            )
            if initial:
                driver.call(
                    "cuMemcpyHtoD_v2",
                    ctypes.c_uint64(address),
                    initial,
                    ctypes.c_size_t(len(initial)),
                )
            addresses[index] = address
            buffers.append((address, argument.size, argument))
    for index, argument in enumerate(case.arguments):
        if isinstance(argument, Buffer):
            raw = addresses[index].to_bytes(8, "little")
        elif isinstance(argument, Word):
            raw = argument.value.to_bytes(argument.bits // 8, "little")
        else:
            raw = encode_map(driver, argument, addresses[argument.buffer])
        values.append(ctypes.create_string_buffer(raw, len(raw)))
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    try:
        driver.call(
            "cuLaunchKernel",
            function,
            case.grid,
            1,
            1,
            case.block,
            1,
            1,
            case.shared,
            None,
            pointers,
            None,
        )
        driver.call("cuCtxSynchronize")
        result = b""
        for address, size, buffer in buffers:
            if buffer.output:
                host = ctypes.create_string_buffer(size)
                driver.call(
                    "cuMemcpyDtoH_v2", host, ctypes.c_uint64(address), ctypes.c_size_t(size)
                )
                result += host.raw
        return result
    finally:
        for address, _, _ in buffers:
            driver.library.cuMemFree_v2(ctypes.c_uint64(address))


def encode_map(driver: Driver, tensor: TensorMap, address: int) -> bytes:
    rank = len(tensor.size)
    call = EncodeCall(
        tensor.type,
        rank,
        (address + tensor.byte_offset) % (1 << 64),
        tensor.size,
        tensor.stride,
        tensor.box,
        tensor.element_strides(),
        0,
        tensor.swizzle,
        0,
        tensor.fill,
    )
    code, raw = driver.encode(call)
    if code != 0:
        raise ValueError(f"cuTensorMapEncodeTiled returned {code}")
    return raw


def worker(group: str, first: int, path: Path) -> None:
    """Runs the cases of a group from index `first` on; appends one JSON line per case."""
    driver = Driver()
    if group == TENSOR_MAPS:
        lines = [
            {"call": vars(call), "code": code, "bytes": raw.hex()}
            for call in encode_calls()
            for code, raw in [driver.encode(call)]
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return
    cases = accepted(group)
    kernels = {case.kernel: case.ptx for case in cases[first:]}
    module = driver.load(PTX_HEADER + "".join(kernels.values()))
    with path.open("a") as out:
        for case in cases[first:]:
            function = ctypes.c_void_p()
            driver.call("cuModuleGetFunction", ctypes.byref(function), module, case.kernel.encode())
            line = {"name": case.name}
            fatal = False
            try:
                results = [run_case(driver, function, case) for _ in range(2)]
                if results[0] != results[1]:
                    line["fault"] = "two runs differ"
                result = digest(results[0]) if case.compare.mode == "digest" else results[0]
                line["output"] = result.hex()
            except ValueError as error:
                line["fault"] = str(error)
            except RuntimeError as error:
                line["fault"] = str(error)
                fatal = True
            out.write(json.dumps(line) + "\n")
            out.flush()
            if fatal:
                sys.exit(3)


def record_group(group: str, folder: Path) -> str:
    """Records one group, restarting the worker behind every case that faults."""
    started = time.monotonic()
    path = folder / f"{group}.jsonl"
    path.unlink(missing_ok=True)
    total = 1 if group == TENSOR_MAPS else len(accepted(group))
    log = ""
    while True:
        done = len(path.read_text().splitlines()) if path.exists() else 0
        if done >= total:
            break
        command = [sys.executable, __file__, "--worker", group, str(done), "--output", str(folder)]
        try:
            finished = subprocess.run(
                command, capture_output=True, text=True, timeout=HANG_SECONDS + total / 50
            )
            log += finished.stderr[-2000:]
            if finished.returncode not in (0, 3):
                return f"{group}: worker failed after {done} of {total}: {log}"
        except subprocess.TimeoutExpired:
            completed = len(path.read_text().splitlines()) if path.exists() else 0
            if completed >= total:
                break
            with path.open("a") as out:
                out.write(
                    json.dumps({"name": accepted(group)[completed].name, "fault": "hang"}) + "\n"
                )
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.unlink()
    seconds = time.monotonic() - started
    faults = [f"    {line['name']}: {line['fault']}" for line in lines if "fault" in line]
    write_recording(group, lines, folder)
    return "\n".join(
        [
            f"{group}: {len(lines)} cases in {seconds:.1f} s, {len(faults)} faults",
            *faults[:40],
        ]
    )


def write_recording(group: str, lines: list[dict[str, object]], folder: Path) -> None:
    """GROUP.gold: zlib of a JSON line ([name, output bytes, fault], …) and the outputs."""
    if group == TENSOR_MAPS:
        (folder / f"{group}.gold").write_bytes(zlib.compress(json.dumps(lines).encode(), 9))
        return
    outputs = [bytes.fromhex(str(line.get("output", ""))) for line in lines]
    index = [
        [line["name"], len(data), line.get("fault", "")]
        for line, data in zip(lines, outputs, strict=True)
    ]
    (folder / f"{group}.gold").write_bytes(
        zlib.compress(json.dumps(index).encode() + b"\n" + b"".join(outputs), 9)
    )


def assemble(group: str) -> list[str]:
    """Names of the cases that ptxas rejects: assembles all at once until no error is left."""
    cases = candidates(group)
    live = {case.kernel: case.ptx for case in cases}
    bad: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "cases.ptx"
        while live:
            text = PTX_HEADER
            first_line: dict[str, range] = {}
            for kernel, ptx in live.items():
                line = text.count("\n") + 1
                first_line[kernel] = range(line, line + ptx.count("\n"))
                text += ptx
            source.write_text(text)
            command = [
                "ptxas",
                "-arch=sm_90a",
                "-O1",
                str(source),
                "-o",
                str(Path(folder) / "cases.cubin"),
            ]
            result = subprocess.run(command, capture_output=True, text=True)
            if result.returncode == 0:
                break
            error_lines = [int(number) for number in re.findall(r"line (\d+)", result.stderr)]
            found = {
                kernel
                for kernel, span in first_line.items()
                if any(number in span for number in error_lines)
            }
            if not found:
                raise RuntimeError(result.stderr)
            bad |= found
            live = {kernel: ptx for kernel, ptx in live.items() if kernel not in found}
    return [f"{group}: {case.name}" for case in cases if case.kernel in bad]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="*", help="default: all")
    parser.add_argument("--output", type=Path, help="folder for the .gold files")
    parser.add_argument("--check", action="store_true", help="assemble only")
    parser.add_argument("--worker", nargs=2, metavar=("GROUP", "FIRST"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        group, first = arguments.worker
        worker(group, int(first), arguments.output / f"{group}.jsonl")
        return 0
    if arguments.check:
        groups = arguments.groups or list(GROUPS)
        kept = [
            line
            for line in (REJECTED.read_text().splitlines() if REJECTED.exists() else [])
            if line.partition(":")[0] not in groups
        ]
        names = kept + [name for group in groups for name in assemble(group)]
        REJECTED.write_text("".join(name + "\n" for name in names))
        print(f"{len(names)} candidates do not exist on sm_90a")
        return 0
    if arguments.output is None:
        parser.error("--output FOLDER is needed to record")
    arguments.output.mkdir(parents=True, exist_ok=True)
    groups = arguments.groups or [*GROUPS, TENSOR_MAPS]
    with ThreadPoolExecutor(8) as pool:
        for report in pool.map(lambda group: record_group(group, arguments.output), groups):
            print(report, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
