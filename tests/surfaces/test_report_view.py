"""The report as text: on a terminal, in a pipe and in plain ASCII."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from awr.hosts.report import Chart, ReportRequest, ReportResult, report
from awr.surfaces.cli.report_view import chart_lines, print_report

RECORDS = Path(__file__).parent.parent / "fixtures" / "hosts"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as context:
        for name in ("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
            context.delenv(name, raising=False)
        context.setenv("TERM", "xterm-256color")
        context.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def result_of(*names: str, window: int | None = None) -> ReportResult:
    paths = tuple(str(RECORDS / name) for name in names)
    return report(ReportRequest(path=paths, window=window), environment={"HOME": os.devnull})


def text_of(result: ReportResult, *, encoding: str = "utf-8", home: str = "/nowhere") -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    print_report(result, stream=stream, home=home)
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_session_shows_its_compactions_and_its_chart() -> None:
    text = text_of(result_of("claude-statusline-transcript.jsonl", window=100_000))

    assert "claude-code  b98f3e47  main  model claude-opus-4-8, 4 requests" in text
    assert "2026-11-30 20:27:20   automatic   90,000 → 21,000   100,000 (user)   21.0 %   first" in text
    assert "1 request, <1 min" in text
    assert "90,000 |" in text
    assert "▲ marks a compaction)" in text
    assert "tokens freed: 69,000 (2 measured on both sides)" in text
    assert "low_yield (1): the first request after it is still more than 80 %" in text
    assert "thrash" not in text
    assert "\x1b" not in text


def test_missing_values_print_as_unknown_and_never_as_zero() -> None:
    text = text_of(result_of("public-claude-subagent-sidechain.jsonl"))

    assert "claude-code  unknown  a2223d9  model unknown" in text
    assert "unknown → unknown   unknown   unknown   first" in text
    assert "tokens freed: unknown" in text


def test_hosts_estimate_is_named_as_one() -> None:
    assert "host's estimate: 11,775" in text_of(result_of("public-claude-manual-preservedSegment.jsonl"))


def test_stream_without_unicode_gets_plain_ascii() -> None:
    text = text_of(
        result_of("claude-statusline-transcript.jsonl", "codex-pre-allow-transcript.jsonl"), encoding="ascii"
    )

    assert text.isascii()
    assert "90,000 -> 21,000" in text
    assert "^ marks a compaction)" in text


def test_name_that_the_stream_cannot_write_is_shown_with_a_sign_for_it(tmp_path: Path) -> None:
    path = tmp_path / "ñandú.jsonl"
    path.write_bytes((RECORDS / "claude-auto-allow-transcript.jsonl").read_bytes())
    result = report(ReportRequest(path=(str(path),)), environment={"HOME": os.devnull})

    assert "?and?.jsonl" in text_of(result, encoding="ascii")
    assert "ñandú.jsonl" in text_of(result, encoding="utf-8")


def test_pipe_gets_no_colours_also_when_they_are_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")

    assert "\x1b" not in text_of(result_of("claude-statusline-transcript.jsonl"))


def test_terminal_gets_colours() -> None:
    stream = Terminal()
    print_report(result_of("claude-statusline-transcript.jsonl"), stream=stream, home="/nowhere")

    assert "\x1b[" in stream.getvalue()


def test_sessions_without_a_compaction_share_one_line_among_others() -> None:
    text = text_of(
        result_of(
            "claude-auto-allow-transcript.jsonl",
            "claude-manual-block-transcript.jsonl",
            "claude-manual-exit2-transcript.jsonl",
        )
    )

    assert "2 sessions without a compaction (6 requests)." in text
    assert "a683ee07" not in text


def test_single_session_without_a_compaction_is_shown() -> None:
    text = text_of(result_of("claude-manual-block-transcript.jsonl"))

    assert "No compaction in this session." in text
    assert "70,000 |" in text


def test_path_is_shortened_only_below_the_home_folder() -> None:
    result = result_of("claude-auto-allow-transcript.jsonl")

    assert "\n~/claude-auto-allow-transcript.jsonl\n" in text_of(result, home=str(RECORDS))
    assert f"\n{RECORDS}/claude-auto" in text_of(result, home=str(RECORDS)[:-1])


def test_name_that_a_terminal_would_obey_is_shown_harmless(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\n[bold]b.jsonl"
    path.write_bytes((RECORDS / "claude-auto-allow-transcript.jsonl").read_bytes())
    text = text_of(report(ReportRequest(path=(str(path),)), environment={"HOME": os.devnull}))

    assert "\x1b" not in text
    assert "a?[31m?[bold]b.jsonl" in text


def test_skipped_files_are_named_with_their_reason() -> None:
    text = text_of(report(ReportRequest(path=(str(RECORDS),)), environment={"HOME": os.devnull}))

    assert "3 files skipped:" in text
    assert "foreign-copilot.jsonl: this is no transcript of a host that AWR reads" in text


def test_chart_is_bounded_and_scaled_to_its_highest_request() -> None:
    lines = chart_lines(Chart(stride=4, peaks=tuple(range(1, 257)), marks=(0, 512, 1023), minutes_since_previous=()))

    assert len(lines) == 7
    assert lines[0].startswith("256 |")
    assert all(len(line) <= 90 for line in lines)
    assert lines[-1].count("▲") == 4
    assert lines[-1].index("▲") == lines[0].index("|") + 1


def test_chart_without_a_request_is_empty() -> None:
    assert chart_lines(Chart(stride=1, peaks=(), marks=(0,), minutes_since_previous=(None,))) == []


def test_module_is_imported_without_the_terminal_library() -> None:
    code = "import sys, awr.surfaces.cli.report_view; sys.exit('rich' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
