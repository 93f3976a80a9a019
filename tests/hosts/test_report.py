"""The report: its JSON shape, where it looks, what it leaves out, and which errors it hands over."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awr.errors import AwrError, InvalidInput, Io, NotFound, Unsupported
from awr.hosts.report import ReportRequest, ReportResult, report

RECORDS = Path(__file__).parent.parent / "fixtures" / "hosts"
SECRET = "the words of a person"
Run = Callable[..., ReportResult]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "CLAUDE_CODE_AUTO_COMPACT_WINDOW"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def run(home: Path) -> Run:
    def run(*paths: Path | str, **fields: Any) -> ReportResult:
        names = tuple(str(path) for path in paths)
        return report(ReportRequest(path=names, **fields), now=lambda: 1796083200000)  # 2026-12-01T00:00Z

    return run


def body(result: ReportResult) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(msgspec.json.encode(result.report))
    return found


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def answer(identity: str, tokens: int, second: int = 0, **fields: Any) -> dict[str, Any]:
    message = {"id": identity, "model": "claude-sonnet-4-5", "content": SECRET, "usage": {"input_tokens": tokens}}
    when = f"2026-11-30T20:00:{second:02}.000Z"
    return {"type": "assistant", "uuid": identity, "sessionId": "s", "timestamp": when, "message": message, **fields}


def boundary(uuid: str, pre: int, second: int = 0, **fields: Any) -> dict[str, Any]:
    metadata = {"trigger": "auto", "preTokens": pre}
    when = f"2026-11-30T20:00:{second:02}.000Z"
    shape = {"type": "system", "subtype": "compact_boundary", "content": SECRET}
    return {**shape, "uuid": uuid, "timestamp": when, "compactMetadata": metadata, **fields}


def test_body_has_exactly_the_documented_shape(run: Run) -> None:
    path = RECORDS / "codex-pre-allow-transcript.jsonl"
    found = body(run(path))

    assert list(found) == ["ok", "version", "sessions", "totals"]
    assert (found["ok"], found["version"]) == (True, 1)
    assert found["sessions"] == [
        {
            "host": "codex",
            "session_id": "01a22e22-0951-7f03-94d3-b937e1daaeee",
            "path": str(path),
            "agent": "main",
            "model": "stub-model",
            "requests": 4,
            "compactions": [
                {
                    "compaction_id": "resp_stub_00003",
                    "sequence": 1,
                    "trigger": "unknown",
                    "observed_at": 1796070313565,
                    "before_tokens": 85_000,
                    "after_tokens": 21_000,
                    "context_window_tokens": 95_000,
                    "window_source": "row",
                    "occupancy_percent": 21_000 * 100 / 95_000,
                    "host_before_tokens": None,
                    "host_after_tokens": 6063,
                    "duration_ms": 73,
                    "requests_since_previous": None,
                    "flags": [],
                }
            ],
        }
    ]


def test_body_is_json_without_the_charts(run: Run) -> None:
    result = run(RECORDS / "claude-statusline-transcript.jsonl")
    text = msgspec.json.encode(result.report)

    assert b"peaks" not in text
    assert result.charts[0].peaks == (40_000, 90_000, 21_000, 21_000)
    assert result.charts[0].marks == (2, 3)
    assert result.charts[0].minutes_since_previous == (None, 8.604 / 60)


def test_totals_sum_only_what_is_measured(run: Run) -> None:
    totals = body(run(RECORDS))["totals"]

    assert totals["compactions"] == {"automatic": 8, "manual": 5, "unknown": 7}
    assert (totals["measured"], totals["tokens_freed"]) == (10, 664_903)
    assert (totals["sessions"], totals["subagents"], totals["copied_compactions"]) == (18, 2, 0)
    assert {Path(skipped["path"]).name for skipped in totals["skipped"]} == {
        "foreign-copilot.jsonl",
        "foreign-gemini.jsonl",
        "foreign-opencode.jsonl",
    }
    assert {skipped["code"] for skipped in totals["skipped"]} == {"Unsupported"}


def test_nothing_measured_frees_null_and_not_zero(run: Run) -> None:
    totals = body(run(RECORDS / "public-claude-manual-preservedSegment.jsonl"))["totals"]

    assert (totals["measured"], totals["tokens_freed"]) == (0, None)
    assert totals["flags"] == {"estimate_only": 1}


def test_users_window_gives_occupancy_and_its_source(run: Run) -> None:
    (session,) = body(run(RECORDS / "claude-auto-allow-transcript.jsonl", window=40_000))["sessions"]

    (found,) = session["compactions"]
    assert (found["context_window_tokens"], found["window_source"]) == (40_000, "user")
    assert found["occupancy_percent"] == 52.5
    assert list(found["flags"]) == ["high_floor", "implausible_window"]


def test_table_window_is_shown_and_used_for_nothing(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [answer("m1", 30_000), boundary("b", 30_000), answer("m2", 29_000)])

    (found,) = body(run(path))["sessions"][0]["compactions"]
    assert (found["context_window_tokens"], found["window_source"]) == (200_000, "table")
    assert found["occupancy_percent"] is None
    assert list(found["flags"]) == ["low_yield"]


def test_setting_of_the_sessions_folder_is_its_window(run: Run, tmp_path: Path) -> None:
    project = tmp_path / "project"
    write(project / ".claude" / "settings.json", [{"autoCompactWindow": 150_000}])
    rows = [answer("m1", 30_000, cwd=str(project)), boundary("b", 30_000), answer("m2", 9_000)]

    (found,) = body(run(write(tmp_path / "a.jsonl", rows)))["sessions"][0]["compactions"]
    assert (found["context_window_tokens"], found["window_source"]) == (150_000, "setting")
    assert list(found["flags"]) == ["premature"]


def test_without_a_path_the_hosts_own_folders_are_searched(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = home / ".claude" / "projects" / "-home-dev"
    write(project / "s.jsonl", [answer("m1", 5)])
    write(project / "s" / "subagents" / "agent-a1.jsonl", [answer("m2", 6)])
    rollout = home / ".codex" / "sessions" / "2026" / "11" / "30" / "rollout-x.jsonl"
    rollout.parent.mkdir(parents=True)
    shutil.copy(RECORDS / "codex-man-allow-transcript.jsonl", rollout)
    shutil.copy(rollout, rollout.parent / "notes.jsonl")

    assert [(s["host"], s["agent"]) for s in body(run())["sessions"]] == [
        ("claude-code", "main"),
        ("claude-code", "a1"),
        ("codex", "main"),
    ]
    assert [s["host"] for s in body(run(host="codex"))["sessions"]] == ["codex"]
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    write(tmp_path / "config" / "projects" / "p" / "t.jsonl", [answer("m3", 7)])
    assert [Path(s["path"]).name for s in body(run())["sessions"]] == ["t.jsonl"]


def test_machine_without_transcripts_is_not_found(run: Run) -> None:
    with pytest.raises(NotFound):
        run()


def test_folder_without_transcripts_is_not_found(run: Run, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        run(tmp_path)


def test_folder_of_unreadable_files_lists_them_beside_the_error(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    write(folder / "empty.jsonl", [])
    os.mkfifo(folder / "pipe.jsonl")
    result = run(folder)

    assert [problem.code for problem in result.problems] == ["NotFound"]
    assert [(Path(s.path).name, s.code) for s in result.report.totals.skipped] == [
        ("empty.jsonl", "InvalidInput"),
        ("pipe.jsonl", "InvalidInput"),
    ]


def test_folder_that_cannot_be_listed_is_an_io_error(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(Io) as refusal:
        run(tmp_path)
    assert refusal.value.details["location"] == str(tmp_path)


def test_copy_that_keeps_the_times_of_its_rows_gives_way_to_what_it_copied(run: Run, tmp_path: Path) -> None:
    old = [answer("m1", 90_000, 1), boundary("b1", 90_000, 2)]
    write(tmp_path / "t" / "a-copy.jsonl", [*old, answer("m2", 20_000, 5)])
    write(tmp_path / "t" / "z-first.jsonl", old)

    (owner,) = (s for s in body(run(tmp_path / "t"))["sessions"] if s["compactions"])
    assert Path(owner["path"]).name == "z-first.jsonl"


def test_bad_named_file_is_the_error(run: Run, tmp_path: Path) -> None:
    for path, error in (
        (RECORDS / "foreign-copilot.jsonl", Unsupported),
        (tmp_path / "missing.jsonl", NotFound),
        (write(tmp_path / "empty.jsonl", []), InvalidInput),
        (Path("/dev/null"), InvalidInput),
    ):
        with pytest.raises(error) as refusal:
            run(path)
        assert {"got", "expected", "next_step"} <= set(refusal.value.details)
        assert refusal.value.details["location"] == str(path)


def test_good_named_files_are_reported_beside_the_errors_of_bad_ones(run: Run, tmp_path: Path) -> None:
    result = run(tmp_path / "missing.jsonl", RECORDS / "claude-auto-allow-transcript.jsonl", "a\0b")

    assert len(result.report.sessions) == 1
    assert [problem.code for problem in result.problems] == ["NotFound", "InvalidInput"]


def test_named_file_without_a_compaction_is_reported_beside_an_error(run: Run, tmp_path: Path) -> None:
    result = run(RECORDS / "claude-manual-block-transcript.jsonl")

    assert [session.requests for session in result.report.sessions] == [3]
    assert [problem.code for problem in result.problems] == ["NotFound"]
    folder = tmp_path / "t"
    write(folder / "a.jsonl", [answer("m1", 5)])
    assert run(folder).problems == ()


def test_file_of_another_host_than_the_stated_one_is_unsupported(run: Run) -> None:
    with pytest.raises(Unsupported):
        run(RECORDS / "claude-auto-allow-transcript.jsonl", host="codex")


def test_same_file_named_twice_is_read_once(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "t" / "a.jsonl", [answer("m1", 5), boundary("b", 5)])
    (tmp_path / "t" / "link.jsonl").symlink_to(path)

    assert body(run(path, tmp_path / "t", path))["totals"]["files"] == 1


def test_compaction_copied_into_another_file_stays_with_the_oldest(run: Run, tmp_path: Path) -> None:
    old = [answer("m1", 90_000, 1), boundary("b1", 90_000, 2), answer("m2", 20_000, 3)]
    later = [answer("m0", 9, 5), *old, boundary("b2", 20_500, 6)]
    write(tmp_path / "t" / "a-copy.jsonl", later)
    write(tmp_path / "t" / "z-first.jsonl", old)
    found = body(run(tmp_path / "t"))

    assert {
        Path(session["path"]).name: [c["compaction_id"] for c in session["compactions"]]
        for session in found["sessions"]
    } == {"a-copy.jsonl": ["b2"], "z-first.jsonl": ["b1"]}
    assert found["totals"]["copied_compactions"] == 1


def test_copy_that_was_cut_before_the_hosts_estimate_is_still_a_copy(run: Run, tmp_path: Path) -> None:
    lines = (RECORDS / "codex-pre-allow-transcript.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.jsonl").write_bytes(b"".join(lines))
    (tmp_path / "t" / "b.jsonl").write_bytes(b"".join([*lines[:31], *[b"{}\n"] * 40]))

    totals = body(run(tmp_path / "t"))["totals"]
    assert (totals["compactions"]["unknown"], totals["copied_compactions"]) == (1, 1)


def test_clock_that_went_back_proves_no_minutes(run: Run, tmp_path: Path) -> None:
    rows = [answer("m1", 9), boundary("b1", 9, 40), answer("m2", 5), boundary("b2", 5, 20)]

    assert run(write(tmp_path / "a.jsonl", rows)).charts[0].minutes_since_previous == (None, None)


def test_compaction_right_at_the_start_of_the_report_is_in_it(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [answer("m1", 9), boundary("b1", 9, 40)])

    assert len(body(run(path, since="2026-11-30T20:00:40Z"))["sessions"]) == 1


def test_equal_ids_with_other_numbers_are_two_compactions(run: Run, tmp_path: Path) -> None:
    for name, pre in (("a", 5), ("b", 6)):
        write(tmp_path / "t" / f"{name}.jsonl", [answer(name, pre), boundary("same", pre)])

    assert body(run(tmp_path / "t"))["totals"]["compactions"]["automatic"] == 2


@pytest.mark.parametrize(
    ("since", "kept"),
    [
        ("2026-11-30T20:27:25Z", [["manual"]]),
        ("2026-11-29", [["automatic", "manual"]]),
        ("7d", [["automatic", "manual"]]),
        ("4h", [["automatic", "manual"]]),
        ("212m", []),
    ],
)
def test_since_leaves_out_older_compactions(run: Run, since: str, kept: list[list[str]]) -> None:
    sessions = body(run(RECORDS / "claude-statusline-transcript.jsonl", since=since))["sessions"]

    assert [[found["trigger"] for found in session["compactions"]] for session in sessions] == kept


def test_since_leaves_out_sessions_with_none_left_and_times_unknown(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "t" / "a.jsonl", [answer("m1", 5), boundary("b", 5, timestamp=None)])
    write(tmp_path / "t" / "b.jsonl", [answer("m2", 5)])
    write(tmp_path / "t" / "c.jsonl", [answer("m3", 5), boundary("c", 6, 30)])
    result = run(tmp_path / "t", since="2026-11-30T20:00:10Z")

    assert [Path(session.path).name for session in result.report.sessions] == ["c.jsonl"]
    assert len(result.charts) == 1
    assert result.problems == ()


@pytest.mark.parametrize("since", ["yesterday", "", "7w", "-1d", "2026-13-01", "7 d", "99999999d"])
def test_bad_since_is_invalid_input_and_not_echoed(run: Run, since: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        run(RECORDS, since=since)
    assert not since or since not in str(refusal.value.details["got"])


@pytest.mark.parametrize("window", [0, -1, 10**9 + 1])
def test_window_out_of_range_is_invalid_input(run: Run, window: int) -> None:
    with pytest.raises(InvalidInput):
        run(RECORDS, window=window)


def test_report_holds_no_text_of_the_rows(run: Run, tmp_path: Path) -> None:
    rows = [answer("m1", 5), boundary("b", 5), {"type": "user", "message": {"content": SECRET}}, answer("m2", 4)]
    result = run(write(tmp_path / "a.jsonl", rows))

    assert SECRET.encode() not in msgspec.json.encode(result.report)
    assert SECRET not in repr(result)


def test_path_of_odd_bytes_is_still_json(run: Run, tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl")
    Path(path).write_text(json.dumps(answer("m1", 5)) + "\n" + json.dumps(boundary("b", 5)) + "\n")

    assert body(run(path))["sessions"][0]["path"].endswith("/\ufffd.jsonl")


def test_progress_reaches_the_size_of_all_files(home: Path) -> None:
    steps: list[tuple[int, int]] = []
    report(ReportRequest(path=(str(RECORDS),)), progress=lambda done, total: steps.append((done, total)))

    size = sum(path.stat().st_size for path in RECORDS.glob("*.jsonl"))
    assert steps[-1] == (size, size)
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)


def test_failed_attempts_behind_the_last_compaction_are_in_the_totals(run: Run) -> None:
    result = run(RECORDS / "claude-stream-compaction.jsonl")

    assert result.report.totals.failed_attempts == 1
    assert result.report.totals.flags == {"estimate_only": 1}


def test_problems_are_errors_with_the_whole_refusal(run: Run, tmp_path: Path) -> None:
    result = run(RECORDS / "claude-auto-allow-transcript.jsonl", tmp_path / "missing.jsonl")

    (problem,) = result.problems
    assert isinstance(problem, AwrError)
    assert problem.report()["code"] == "NotFound"
