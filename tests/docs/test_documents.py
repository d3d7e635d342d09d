"""Every example in the documents works as printed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("JFA_TOOL", ROOT / "build" / "jfa"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def blocks(document: Path, language: str) -> list[str]:
    """The fenced code blocks of one language."""
    return re.findall(
        rf"^```{language}\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL
    )


def problems_of(document: Path) -> list[str]:
    """One-line problems: blocks of the language `problem`, and quoted arguments of the tool."""
    text = document.read_text()
    quoted = re.findall(r'jfa (?:check|bench|explain) +"([^"<]+)"', text)
    return quoted + [line for block in blocks(document, "problem") for line in block.splitlines()]


def test_readme_has_the_cpp_example_that_is_compiled() -> None:
    (example,) = blocks(ROOT / "README.md", "cpp")
    assert example == (ROOT / "examples" / "cpp" / "quickstart.cpp").read_text()


def test_python_example_of_the_readme_runs() -> None:
    (example,) = blocks(ROOT / "README.md", "python")
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    assert names["out"].shape == (8, 4, 64)  # type: ignore[attr-defined]
    assert names["pooled"].shape == (3, 2, 4, 64)  # type: ignore[attr-defined]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_one_line_problems_parse(document: Path) -> None:
    for problem in problems_of(document):
        finished = subprocess.run(
            [TOOL, "explain", problem], capture_output=True, text=True, check=False
        )
        assert finished.returncode == 0, finished.stderr


def test_there_are_problems_in_the_documents() -> None:
    assert len(problems_of(ROOT / "docs" / "notation.md")) >= 7
    assert len(problems_of(ROOT / "README.md")) >= 3


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
        assert (document.parent / target).exists(), f"{document.name}: {target}"
