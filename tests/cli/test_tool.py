"""The program build/jfa: exit codes, output for people and for machines, the main job."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("JFA_TOOL", ROOT / "build" / "jfa"))
SMALL = "fwd fp32 d=16 h=2 mask=causal q=5,0,17"


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TOOL, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=300,
        check=False,
    )


def run_json(*arguments: str | Path) -> Any:
    finished = run(*arguments, "--json")
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def write_log(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rows = [
        f"u{user},i{(user * 7 + n) % 50},{1000 - n}"
        for user in range(12)
        for n in range(3 * user + 1)
    ]
    return write_log(tmp_path / "log.csv", "user,item,time\r\n" + "\r\n".join(rows) + "\r\n")


class TestCommandLine:
    @pytest.mark.parametrize(
        "arguments", [[], ["frobnicate"], ["check"], ["check", "--bogus", SMALL]]
    )
    def test_wrong_use_exits_2(self, arguments: list[str]) -> None:
        assert run(*arguments).returncode == 2

    @pytest.mark.parametrize("command", ["check", "bench", "explain"])
    def test_malformed_problem_exits_2_and_marks_the_place(self, command: str) -> None:
        finished = run(command, "fwd fp32 d=64 heads=4 q=3")
        assert finished.returncode == 2
        assert "heads=4" in finished.stderr
        assert "^" in finished.stderr
        assert finished.stdout == ""

    def test_unknown_device_exits_2(self) -> None:
        finished = run("check", SMALL, "--device", "toaster")
        assert finished.returncode == 2
        assert "toaster" in finished.stderr

    @pytest.mark.parametrize(
        "option",
        [
            ("--batch-rows", "0"),
            ("--batch-rows", "99999999999999999999"),
            ("--heads", "-1"),
            ("--seed", "-1"),
            ("--seed", "18446744073709551616"),
            ("--time-limit", "nan"),
            ("--time-limit", "-1"),
            ("--user-share", "nan"),
            ("--user-share", "0"),
            ("--max-users", "1.5"),
            ("--threads", "1e3"),
        ],
    )
    def test_numbers_that_do_not_fit_exit_2(self, log: Path, option: tuple[str, str]) -> None:
        finished = run("run", "--events", log, "--user", "user", "--time", "time", *option)
        assert finished.returncode == 2
        assert option[0] in finished.stderr
        assert f"'{option[1]}' is not allowed" in finished.stderr

    def test_folder_in_place_of_problems_exits_2(self, tmp_path: Path) -> None:
        finished = run("check", "--file", tmp_path)
        assert finished.returncode == 2
        assert "a folder" in finished.stderr

    def test_threads_beyond_reason_exit_2(self) -> None:
        finished = run("bench", "--threads", "2000000000", SMALL)
        assert finished.returncode == 2
        assert "--threads" in finished.stderr

    def test_output_that_cannot_be_written_exits_1(self) -> None:
        with Path("/dev/full").open("w") as full:
            finished = subprocess.run(
                [TOOL, "check", SMALL], stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert finished.returncode == 1
        assert "standard output: cannot be written" in finished.stderr

    def test_help_and_version(self) -> None:
        assert run("--help").returncode == 0
        assert run("run", "--help").returncode == 0
        assert run("--version").stdout.startswith("jfa ")

    def test_no_colours_when_not_on_a_terminal(self) -> None:
        assert "\x1b" not in run("check", SMALL).stdout


class TestCheck:
    def test_agreement_exits_0(self) -> None:
        finished = run("check", SMALL, "bwd bf16 d=8 h=2 hkv=1 q=3,0,9")
        assert finished.returncode == 0
        assert finished.stdout.splitlines()[-1] == "2 passed, 0 failed"

    def test_refused_problem_exits_1(self) -> None:
        finished = run("check", "fwd fp32 d=16 h=3 hkv=2 q=5")
        assert finished.returncode == 1
        assert finished.stdout.startswith("FAIL")

    def test_json(self) -> None:
        (result,) = run_json("check", "bwd fp32 d=16 h=2 mask=causal q=5,0,17")
        assert result["passed"]
        assert {"out", "lse", "d_q", "d_k", "d_v"} <= {
            tensor["tensor"] for tensor in result["tensors"]
        }

    def test_file(self, tmp_path: Path) -> None:
        cases = tmp_path / "cases.txt"
        cases.write_text(f"# two cases\n\n  {SMALL}  \n{SMALL} seed=2\n")
        assert len(run_json("check", "--file", cases)) == 2

    def test_bad_line_of_a_file_is_named(self, tmp_path: Path) -> None:
        cases = tmp_path / "cases.txt"
        cases.write_text(f"{SMALL}\nnonsense\n")
        finished = run("check", "--file", cases)
        assert finished.returncode == 2
        assert "cases.txt:2:" in finished.stderr

    def test_missing_file(self) -> None:
        assert run("check", "--file", "/no/such/file").returncode == 2


class TestBenchAndExplain:
    def test_bench(self) -> None:
        result = run_json("bench", "--seconds", "0", SMALL)
        (timing,) = result["problems"]
        assert timing["median_seconds"] >= timing["fastest_seconds"] > 0
        assert timing["floor_seconds"] > 0
        assert result["machine"]["peak_flops"] > 0

    def test_explain(self) -> None:
        (result,) = run_json("explain", SMALL)
        assert result["plan"]["query_rows"] == 22
        assert result["plan"]["visible_pairs"] == 5 * 6 / 2 + 17 * 18 / 2
        assert result["floor_seconds"] > 0

    def test_explain_of_an_empty_batch(self) -> None:
        (result,) = run_json("explain", "fwd fp32 d=16 q=0,0")
        assert result["plan"]["visible_pairs"] == 0

    def test_info(self) -> None:
        result = run_json("info")
        assert result["devices"][0]["device"] == "cpu"
        assert run("info").returncode == 0


def why_no_kernels() -> str | None:
    """Why nothing can be compiled here; on CI that is no reason to skip."""
    nvrtc: str = run_json("info")["nvrtc"]
    return None if nvrtc.startswith("NVRTC") or "CI" in os.environ else nvrtc


class TestDevices:
    """Problems on the PTX machine, which needs no GPU but the compiler."""

    line = "fwd bf16 d=64 h=4 hkv=1 mask=causal q=5,0,17 rowgap=1"

    @pytest.fixture(autouse=True)
    def compiler(self) -> None:
        if reason := why_no_kernels():
            pytest.skip(reason)

    def test_check(self) -> None:
        finished = run("check", self.line, "--device", "emulated:sm_90a")
        assert finished.returncode == 0, finished.stdout
        assert finished.stdout.startswith("PASS")

    def test_what_kernels_lack_exits_1(self) -> None:
        finished = run("check", "fwd fp32 d=64 q=3", "--device", "emulated:sm_90a")
        assert finished.returncode == 1
        assert "q: type float32; GPUs support bfloat16 and float16" in finished.stdout

    def test_bench(self) -> None:
        options = ["--device", "emulated:sm_90a", "--seconds", "0"]
        (timing,) = run_json("bench", "fwd bf16 d=64 q=5,0,17", *options)["problems"]
        assert timing["runs"] >= 3
        assert timing["flops"] == (5 * 5 + 17 * 17) * 4 * 64

    @pytest.mark.parametrize("device", ["sm_90a", "emulated:sm_90a"])
    def test_explain(self, device: str) -> None:
        (explained,) = run_json("explain", self.line, "--device", device)
        choice = explained["choice"]
        assert choice["packed_heads"] == 4
        assert "Activation::softmax" in choice["entry"]
        assert any("q goes through an aligned copy" in reason for reason in choice["reasons"])
        for kernel in choice["kernels"]:
            assert 0 < kernel["registers"] <= 255
            assert kernel["spilled_bytes"] >= 0
        assert explained["plan"]["query_rows"] == 22

    def test_bundle_of_problems_needs_no_compiler(self, tmp_path: Path) -> None:
        problems = tmp_path / "problems.txt"
        problems.write_text(f"# two\n{self.line}\nfwd bf16 d=64 q=3\n")
        bundle = tmp_path / "kernels"
        assert run("bundle", bundle, "--file", problems, "--ptx").returncode == 0
        without_compiler = {
            "JFA_NVRTC": "/no/such/compiler",
            "JFA_CACHE_DIR": str(tmp_path / "cache"),
            "JFA_BUNDLE": str(bundle),
        }
        check: list[str | Path] = ["check", "--file", problems, "--device", "emulated:sm_90a"]
        assert run(*check, **without_compiler).returncode == 0
        other = ["check", "fwd bf16 d=128 q=3", "--device", "emulated:sm_90a"]
        assert "compile" in run(*other, **without_compiler).stdout


class TestRun:
    columns = ("--user", "user", "--time", "time", "--item", "item")

    def test_report(self, log: Path, tmp_path: Path) -> None:
        page = tmp_path / "report.html"
        result = run_json("run", "--events", log, *self.columns, "--html", page)
        assert result["lengths"]["users"] == 12
        assert result["lengths"]["events"] == sum(3 * user + 1 for user in range(12))
        assert result["lengths"]["longest"] == 34
        assert result["padded"]["rows"] == 12 * 34
        assert result["reference_users"] == 12
        assert all(error["relative"] < 4e-6 for error in result["errors"])
        assert page.read_text().startswith("<!DOCTYPE html>")

    def test_terminal_report(self, log: Path) -> None:
        finished = run("run", "--events", log, *self.columns)
        assert finished.returncode == 0, finished.stderr
        for word in ("Histories", "padding avoided", "Time and memory", "Error against"):
            assert word in finished.stdout

    @pytest.mark.parametrize(
        "options",
        [
            ["--dtype", "bf16"],
            [
                "--dtype",
                "fp16",
                "--heads",
                "2",
                "--kv-heads",
                "1",
                "--dim",
                "24",
                "--value-dim",
                "40",
            ],
            ["--act", "silu", "--mask", "hstu:contextual=1,targets=2"],
            ["--mask", "window:left=8,right=0", "--max-history", "10"],
            ["--mask", "full", "--max-users", "3", "--no-padded", "--threads", "1"],
        ],
    )
    def test_options(self, log: Path, options: list[str]) -> None:
        run_json("run", "--events", log, *self.columns, *options)

    def test_max_history(self, log: Path) -> None:
        result = run_json("run", "--events", log, *self.columns, "--max-history", "10")
        assert result["lengths"]["longest"] == 10

    def test_bad_row_names_the_line(self, tmp_path: Path) -> None:
        log = write_log(tmp_path / "log.csv", "user,item,time\na,x,1\na,y\n")
        finished = run("run", "--events", log, *self.columns)
        assert finished.returncode == 1
        assert "log.csv:3: no time" in finished.stderr

    def test_bad_rows_can_be_skipped(self, tmp_path: Path) -> None:
        log = write_log(tmp_path / "log.csv", "user,item,time\na,x,1\na,y\nb,x,2\n")
        result = run_json("run", "--events", log, *self.columns, "--skip-bad-rows")
        assert result["log"]["rows_skipped"] == 1
        assert result["lengths"]["users"] == 2

    @pytest.mark.parametrize("text", ["", "user,item,time\n"])
    def test_log_without_events(self, tmp_path: Path, text: str) -> None:
        finished = run("run", "--events", write_log(tmp_path / "log.csv", text), *self.columns)
        assert finished.returncode == 1
        assert "no events" in finished.stderr

    def test_missing_log(self) -> None:
        finished = run("run", "--events", "/no/such.csv", *self.columns)
        assert finished.returncode == 1
        assert "/no/such.csv" in finished.stderr

    @pytest.mark.parametrize(
        "options",
        [["--mask", "sideways"], ["--mask", "intervals"], ["--dtype", "fp8"], ["--act", "tanh"]],
    )
    def test_unknown_mask_type_or_activation_exits_2(self, log: Path, options: list[str]) -> None:
        assert run("run", "--events", log, *self.columns, *options).returncode == 2

    def test_page_that_cannot_be_written(self, log: Path) -> None:
        finished = run("run", "--events", log, *self.columns, "--html", "/no/such/folder/page.html")
        assert finished.returncode == 1
        assert "--html" in finished.stderr
        assert not Path("/no").exists()

    def test_page_replaces_what_a_link_points_to(self, log: Path, tmp_path: Path) -> None:
        page, link = tmp_path / "page.html", tmp_path / "link.html"
        page.write_text("old")
        link.symlink_to(page)
        run_json("run", "--events", log, *self.columns, "--html", link)
        assert link.is_symlink()
        assert page.read_text().startswith("<!DOCTYPE html>")
        assert {entry.name for entry in tmp_path.iterdir()} == {"log.csv", "page.html", "link.html"}

    def test_page_into_a_device(self, log: Path) -> None:
        run_json("run", "--events", log, *self.columns, "--html", "/dev/null")
        assert not Path("/dev/null").is_file()

    def test_page_stays_as_it_was_when_the_run_fails(self, tmp_path: Path) -> None:
        log = write_log(tmp_path / "log.csv", "user,item,time\na,x\n")
        page = tmp_path / "page.html"
        page.write_text("old")
        finished = run("run", "--events", log, *self.columns, "--html", page)
        assert finished.returncode == 1
        assert page.read_text() == "old"
        assert {entry.name for entry in tmp_path.iterdir()} == {"log.csv", "page.html"}

    def test_share_of_the_users(self, log: Path) -> None:
        result = run_json("run", "--events", log, *self.columns, "--user-share", "0.5")
        assert 0 < result["lengths"]["users"] < 12
        assert result["log"]["user_share"] == 0.5
        for share in ("0", "1.5", "x"):
            assert run("run", "--events", log, *self.columns, "--user-share", share).returncode == 2

    def test_time_limit(self, log: Path) -> None:
        options = ["--time-limit", "1e-6", "--batch-rows", "10", "--no-padded"]
        result = run_json("run", "--events", log, *self.columns, *options)
        assert result["jagged"]["measured_users"] < 12
        assert result["jagged"]["rows"] == result["lengths"]["events"]
        everything = run_json("run", "--events", log, *self.columns, "--time-limit", "0")
        assert everything["jagged"]["measured_users"] == 12


class TestInterrupt:
    """Ctrl-C in the middle of long work: the tool dies of it at once and leaves nothing behind."""

    @staticmethod
    def interrupt(arguments: Sequence[str | Path], shown: bytes, number: int) -> tuple[int, bytes]:
        """Signals once the terminal shows `shown`; the exit code and what the terminal got last."""
        terminal, its_end = pty.openpty()
        # A shell starts background jobs with Ctrl-C ignored; the tool must not inherit that.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        tool = subprocess.Popen([TOOL, *arguments], stdout=subprocess.PIPE, stderr=its_end)
        signal.signal(signal.SIGINT, before)
        with tool:
            os.close(its_end)
            text = b""
            while shown not in text:
                text += os.read(terminal, 4096)
            time.sleep(0.2)  # into the work
            tool.send_signal(number)
            start = time.monotonic()
            try:
                output, _ = tool.communicate(timeout=60)
            finally:
                tool.kill()
            assert time.monotonic() - start < 5
            assert b"{" not in output  # no part of a JSON document
            try:
                while part := os.read(terminal, 4096):
                    text = part
            except OSError:  # the other end is closed
                os.close(terminal)
        return tool.returncode, text

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    @pytest.mark.parametrize("stage", ["jagged attention", "padded attention"])
    def test_run(self, tmp_path: Path, stage: str, number: signal.Signals) -> None:
        users = 1 if stage == "jagged attention" else 400  # one long history, or many short ones
        rows = (f"{n % users},{n}" for n in range(40_000))
        log = write_log(tmp_path / "log.csv", "user,time\n" + "\n".join(rows) + "\n")
        page = tmp_path / "page.html"
        page.write_text("old")
        options = ["--user", "user", "--time", "time", "--time-limit", "0", "--json"]
        if users > 1:
            options += ["--dim", "1024", "--threads", "1"]
        code, last = self.interrupt(
            ["run", "--events", log, *options, "--html", page], stage.encode(), number
        )
        assert code == -number  # a shell says 128 + number
        assert last.endswith(b"\r\x1b[K")
        assert page.read_text() == "old"
        assert {entry.name for entry in tmp_path.iterdir()} == {"log.csv", "page.html"}

    @pytest.mark.parametrize(
        ("arguments", "shown"),
        [
            (["check", "bwd fp32 d=64 h=8 q=6000"], b"checking "),
            (["bench", "--seconds", "600", SMALL], b"measuring fwd"),
        ],
    )
    def test_check_and_bench(self, arguments: list[str], shown: bytes) -> None:
        code, last = self.interrupt(arguments, shown, signal.SIGINT)
        assert code == -signal.SIGINT
        assert last.endswith(b"\r\x1b[K")
