"""Puts the MovieLens-100k interaction log at .data/ml-100k.inter.

The log ships inside the PyPI wheel of `recbole`; the wheel is downloaded without its dependencies,
the one file is taken out of it, and its checksum is checked. The data is not part of this project
and must not be committed.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WHEEL = "recbole==1.2.1"
MEMBER = "recbole/dataset_example/ml-100k/ml-100k.inter"
SHA256 = "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff"
TARGET = Path(__file__).resolve().parent.parent / ".data" / "ml-100k.inter"


def is_right(data: bytes) -> bool:
    return hashlib.sha256(data).hexdigest() == SHA256


def main() -> int:
    if TARGET.exists() and is_right(TARGET.read_bytes()):
        return 0
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download"]
        command += ["--quiet", "--no-deps", "--dest", folder, WHEEL]
        if subprocess.run(command, check=False).returncode != 0:
            print(
                f"fetch_movielens: could not download {WHEEL} from PyPI with pip", file=sys.stderr
            )
            return 1
        wheel = next(Path(folder).glob("recbole-*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            data = archive.read(MEMBER)
    if not is_right(data):
        print(
            f"fetch_movielens: {MEMBER} in {wheel.name} is not the expected file", file=sys.stderr
        )
        return 1
    TARGET.parent.mkdir(exist_ok=True)
    partial = TARGET.with_suffix(".partial")
    partial.write_bytes(data)
    partial.replace(TARGET)
    print(f"MovieLens-100k is at {TARGET.relative_to(TARGET.parent.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
