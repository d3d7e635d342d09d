#!/usr/bin/env python3
"""Writes the golden cases and their recordings as plain files that the C++ replay test reads.

    python3 bundle.py --output DIRECTORY [GROUP ...]

Per group: GROUP.cases, one line per fact, and GROUP.bin with all bytes (PTX, inputs, expected
outputs), referred to as OFFSET LENGTH.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from pathlib import Path

from cases.case import PTX_HEADER, Buffer, Case, TensorMap, Word, input_bytes
from cases.catalogue import GROUPS, accepted

RECORDED = Path(__file__).parent / "recorded"


class Blob:
    """The binary file of a group: equal pieces are stored once."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.places: dict[bytes, int] = {}

    def add(self, piece: bytes) -> str:
        if piece not in self.places:
            self.places[piece] = len(self.data)
            self.data += piece
        return f"{self.places[piece]} {len(piece)}"


def recording(group: str) -> dict[str, tuple[bytes, str]]:
    """Output bytes and fault text by case name."""
    index, _, payload = zlib.decompress((RECORDED / f"{group}.gold").read_bytes()).partition(b"\n")
    result: dict[str, tuple[bytes, str]] = {}
    offset = 0
    for name, size, fault in json.loads(index):
        result[name] = (payload[offset : offset + size], fault)
        offset += size
    return result


def argument_line(argument: Buffer | Word | TensorMap, blob: Blob) -> str:
    if isinstance(argument, Buffer):
        initial = blob.add(input_bytes(argument.initial)) if argument.initial else "0 0"
        return f"buffer {argument.size} {int(argument.output)} {initial}"
    if isinstance(argument, Word):
        return f"word {argument.bits} {argument.value}"
    numbers = [
        argument.buffer,
        argument.type,
        len(argument.size),
        *argument.size,
        *argument.stride,
        *argument.box,
        *argument.element_strides(),
        argument.swizzle,
        argument.fill,
    ]
    return "map " + " ".join(str(number) for number in numbers)


def case_lines(case: Case, output: bytes, fault: str, blob: Blob) -> list[str]:
    compare = case.compare
    lines = [
        f"case {case.name}",
        f"kernel {case.kernel}",
        f"ptx {blob.add((PTX_HEADER + case.ptx).encode())}",
    ]
    lines += [f"launch {case.grid} {case.block} {case.cluster} {case.shared}"]
    lines += [f"compare {compare.mode} {compare.element} {compare.tolerance!r}"]
    lines += [argument_line(argument, blob) for argument in case.arguments]
    return [*lines, f"fault {fault}" if fault else f"expect {blob.add(output)}"]


def write_group(group: str, folder: Path) -> int:
    recorded = recording(group)
    blob = Blob()
    lines: list[str] = []
    cases = accepted(group)
    for case in cases:
        if case.name not in recorded:
            raise SystemExit(f"{group}: {case.name} was never recorded; run record.py on a GPU")
        lines += case_lines(case, *recorded[case.name], blob)
    (folder / f"{group}.cases").write_text("".join(line + "\n" for line in lines))
    (folder / f"{group}.bin").write_bytes(blob.data)
    return len(cases)


def write_tensor_maps(folder: Path) -> None:
    """One line per recorded call: return code, arguments, and the sixteen words if accepted."""
    lines = []
    for record in json.loads(zlib.decompress((RECORDED / "tensor_maps.gold").read_bytes())):
        call = record["call"]
        numbers = [
            record["code"],
            call["type"],
            call["rank"],
            call["address"],
            *call["size"],
            *call["stride"],
            *call["box"],
            *call["element_stride"],
            call["interleave"],
            call["swizzle"],
            call["l2"],
            call["fill"],
        ]
        raw = bytes.fromhex(record["bytes"])
        words = [int.from_bytes(raw[8 * i : 8 * i + 8], "little") for i in range(16)]
        lines.append(" ".join(str(number) for number in numbers + words))
    (folder / "tensor_maps.txt").write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="*", help="default: all")
    parser.add_argument("--output", type=Path)
    parser.add_argument(
        "--list", action="store_true", help="print the groups, separated by commas, and stop"
    )
    arguments = parser.parse_args()
    if arguments.list:
        print(",".join(GROUPS))
        return 0
    if arguments.output is None:
        parser.error("--output DIRECTORY is needed")
    arguments.output.mkdir(parents=True, exist_ok=True)
    total = sum(write_group(group, arguments.output) for group in arguments.groups or list(GROUPS))
    write_tensor_maps(arguments.output)
    print(f"{total} golden cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
