"""One-line problems from Python, and the package itself."""

from __future__ import annotations

import inspect
from importlib import metadata, resources

import pytest

import jfa

LINES = [
    "fwd fp32 d=64 h=2 mask=causal q=17,0,130",
    "bwd bf16 d=32 dv=48 h=4 hkv=2 mask=window:left=5,right=2 q=zipf:batch=9,clip=70",
    "bwd fp16 d=24 h=2 act=silu mask=hstu:contextual=2,targets=3 q=5,0,33,2",
    "bwd fp32 d=16 h=2 bias=alibi+position:n=8 q=broadcast:rows=4 kv=20,0,3",
]


@pytest.mark.parametrize("line", LINES)
def test_check(line: str) -> None:
    report = jfa.check(line)
    assert report, str(report)
    names = {tensor.tensor for tensor in report.tensors}
    assert {"out"} <= names
    assert line.startswith("fwd") or {"d_q", "d_k", "d_v"} <= names
    for tensor in report.tensors:
        assert 0 <= tensor.relative_error <= tensor.allowed_relative_error
        assert tensor.bad_elements == 0


def test_parse_and_print() -> None:
    problem = jfa.parse_problem("bwd bf16 d=64 h=8 hkv=2 q=17,0 seed=5")
    assert (problem.dim, problem.heads, problem.kv_heads, problem.seed) == (64, 8, 2, 5)
    assert problem.direction.name == "backward"
    assert problem.dtype.name == "bfloat16"
    assert jfa.parse_problem(str(problem)) == problem
    assert hash(jfa.parse_problem(str(problem))) == hash(problem)
    assert str(problem) in repr(problem)
    assert jfa.check(problem, threads=1)


def test_bad_line() -> None:
    with pytest.raises(ValueError, match=r"mask"):
        jfa.parse_problem("fwd fp32 d=64 h=2 mask=triangle q=3")
    with pytest.raises(ValueError, match=r"emulated:sm_90a"):
        jfa.check("fwd fp32 d=8 h=1 q=3", device="tpu")


def test_notation_is_documented() -> None:
    assert "mask=" in jfa.problem_notation()


def test_every_public_name_has_a_docstring() -> None:
    for name in jfa.__all__:
        thing = getattr(jfa, name)
        if inspect.isclass(thing) or callable(thing):
            assert inspect.getdoc(thing), name


def test_stubs_and_version_ship_with_the_package() -> None:
    files = {file.name for file in resources.files(jfa).iterdir()}
    assert {"py.typed", "_core.pyi"} <= files
    assert jfa.__version__.count(".") == 2
    try:
        installed = metadata.version("jfa")
    except metadata.PackageNotFoundError:
        return  # used from the build folder
    assert installed == jfa.__version__


def test_errors_are_python_errors() -> None:
    kinds = [
        (jfa.InvalidArgument, ValueError),
        (jfa.InvalidType, TypeError),
        (jfa.Unsupported, NotImplementedError),
        (jfa.DeviceError, RuntimeError),
    ]
    for error, python_error in kinds:
        assert issubclass(error, jfa.Error)
        assert issubclass(error, python_error)
