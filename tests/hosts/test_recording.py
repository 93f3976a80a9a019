"""Recording what a real transcript proves: once, in order, and nothing that it does not prove."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awr.errors import (
    AwrError,
    InvalidInput,
    InvalidTransition,
    NotFound,
    RevisionConflict,
    RuleViolation,
    Unsupported,
)
from awr.hosts.recording import ImportRequest, ImportResult, import_transcript
from awr.journal.events import Event, events_in_order
from awr.operations.compaction import InspectRequest, ObserveRequest, inspect, observe
from awr.operations.session import EndRequest, end
from awr.project import Project
from tests.domain.test_compaction import observation
from tests.support.projects import Clock, begin_session, make_project, revision

AUTO = "claude-auto-allow-transcript.jsonl"
TWO = "claude-statusline-transcript.jsonl"
CODEX = "codex-man-allow-transcript.jsonl"
ROW = "297e1334-3132-4f4e-b0ec-31b053825a96"
WriteRows = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project", clock=Clock(1_800_000_000_000))


@pytest.fixture
def session(project: Project) -> str:
    return begin_session(project)


@pytest.fixture
def take(project: Project, session: str, records: Path) -> Callable[..., ImportResult]:
    def take(name: str | Path, **fields: Any) -> ImportResult:
        request = ImportRequest(**{"session": session, "transcript": str(records / name), **fields})
        return import_transcript(project, request)

    return take


Take = Callable[..., ImportResult]


def rows(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def observed(project: Project) -> list[Event]:
    with project.journal.read() as reader:
        found = [event for event, _ in events_in_order(reader.database)]
    return [event for event in found if event.event_type == "client.compaction_observed"]


def outcomes(result: ImportResult) -> list[tuple[str, str | None]]:
    return [(one.outcome, one.reason) for one in result.compactions]


def test_a_compaction_is_recorded_with_exactly_what_the_transcript_proves(project: Project, take: Take) -> None:
    result = take(AUTO, window=150_000)
    (event,) = observed(project)
    assert event.content() == {
        "observation": {
            "compaction_id": ROW,
            "sequence": 1,
            "observed_at": 1796070926557,
            "trigger": "automatic",
            "model": "claude-opus-4-8",
            "source": f"claude-code:{ROW};window=user",
            "measurement_scope": "full_request",
            "measurement_basis": "host_reported",
            "before_tokens": 120_000,
            "after_tokens": 21_000,
            "context_window_tokens": 150_000,
            "duration_ms": 73,
            "usage": None,
        },
        "policy": {"post_compaction_threshold_percent": 50},
    }
    (one,) = result.compactions
    assert (one.agent, one.row, one.sequence, one.compaction_id) == ("main", 17, 1, ROW)
    assert (one.outcome, one.reason, one.event_id, one.differences) == ("recorded", None, event.id, {})
    assert (result.host, result.recorded, result.project_revision) == ("claude-code", 1, 4)
    assert (result.state, result.post_compaction_percent) == ("continue", 14.0)
    assert result.observation_event_id == event.id


def test_a_whole_import_is_one_revision(project: Project, take: Take) -> None:
    result = take(TWO)
    assert (result.recorded, result.project_revision, revision(project)) == (2, 4, 4)
    assert [one.sequence for one in result.compactions] == [1, 2]
    assert [event.project_revision for event in observed(project)] == [4, 4]


def test_a_second_import_finds_everything_recorded_and_writes_nothing(project: Project, take: Take) -> None:
    first = take(TWO, window=100_000)
    again = take(TWO, window=100_000, expected_revision=0)
    assert outcomes(again) == [("already_recorded", None)] * 2
    assert [one.event_id for one in again.compactions] == [one.event_id for one in first.compactions]
    assert all(one.differences == {} for one in again.compactions)
    assert (again.recorded, again.project_revision, revision(project)) == (0, 4, 4)
    assert again.state == first.state


def test_what_reads_differently_now_is_listed_field_by_field_and_not_changed(project: Project, take: Take) -> None:
    take(AUTO, window=150_000)
    (one,) = take(AUTO).compactions
    assert one.outcome == "already_recorded"
    assert one.differences == {
        "context_window_tokens": {"recorded": 150_000, "transcript": None},
        "source": {"recorded": f"claude-code:{ROW};window=user", "transcript": f"claude-code:{ROW}"},
    }
    assert len(observed(project)) == 1


def test_only_what_is_new_is_added_when_a_transcript_has_grown(
    project: Project, take: Take, records: Path, write_rows: WriteRows
) -> None:
    whole = rows(records / TWO)
    assert outcomes(take(write_rows(whole[:30]))) == [("recorded", None)]
    assert outcomes(take(records / TWO)) == [("already_recorded", None), ("recorded", None)]
    assert revision(project) == 5


def test_a_compaction_before_a_recorded_one_is_out_of_order(project: Project, session: str, take: Take) -> None:
    later = observation(compaction_id="other", sequence=9, observed_at=1_799_000_000_000)
    observe(project, ObserveRequest(session=session, expected_revision=3, observation=later))
    result = take(TWO)
    assert [one.outcome for one in result.compactions] == ["out_of_order"] * 2
    assert result.recorded == 0
    assert revision(project) == 4


@pytest.mark.parametrize("name", [CODEX, "codex-pre-allow-transcript.jsonl", "codex-mid-allow-transcript.jsonl"])
def test_a_trigger_that_codex_does_not_name_is_not_guessed(project: Project, take: Take, name: str) -> None:
    result = take(name)
    assert (result.host, result.recorded) == ("codex", 0)
    assert outcomes(result) == [("skipped", "trigger_unknown")]
    assert result.state == "measurement_missing"
    assert observed(project) == []
    assert revision(project) == 3


def test_a_subagents_compaction_is_listed_and_not_recorded(project: Project, take: Take) -> None:
    result = take("public-claude-subagent-sidechain.jsonl")
    (one,) = result.compactions
    assert (one.outcome, one.reason) == ("skipped", "subagent")
    assert one.agent != "main"
    assert observed(project) == []


def test_each_row_that_proves_too_little_is_listed_with_its_reason(take: Take) -> None:
    assert outcomes(take("public-claude-old-shape-no-postTokens.jsonl", final=True)) == [
        ("skipped", "time_missing"),
        ("skipped", "row_id_missing"),
        ("skipped", "row_id_missing"),
    ]


def test_a_compaction_that_no_request_followed_waits_for_its_measurement(
    project: Project, take: Take, records: Path, write_rows: WriteRows
) -> None:
    pending = write_rows(rows(records / AUTO)[:17])
    assert outcomes(take(pending)) == [("skipped", "measurement_pending")]
    assert revision(project) == 3
    assert outcomes(take(records / AUTO)) == [("recorded", None)]


def test_a_last_compaction_is_recorded_on_request_with_an_unknown_measurement(
    project: Project, take: Take, records: Path, write_rows: WriteRows
) -> None:
    pending = write_rows(rows(records / AUTO)[:17])
    result = take(pending, final=True, window=150_000)
    assert (outcomes(result), result.state) == ([("recorded", None)], "measurement_missing")
    recorded: Any = observed(project)[0].content()["observation"]
    assert (recorded["before_tokens"], recorded["after_tokens"]) == (120_000, None)
    assert (recorded["measurement_scope"], recorded["measurement_basis"]) == ("unknown", "unknown")
    (one,) = take(records / AUTO, window=150_000).compactions
    assert one.outcome == "already_recorded"
    assert one.differences["after_tokens"] == {"recorded": None, "transcript": 21_000}
    assert set(one.differences) == {"after_tokens", "measurement_scope", "measurement_basis"}


# The window


def stored_window(project: Project) -> tuple[object, object]:
    recorded: Any = observed(project)[0].content()["observation"]
    return recorded["source"], recorded["context_window_tokens"]


def test_without_a_window_the_source_names_none_and_the_measurement_is_missing(project: Project, take: Take) -> None:
    result = take(AUTO)
    assert stored_window(project) == (f"claude-code:{ROW}", None)
    assert (result.state, result.post_compaction_percent) == ("measurement_missing", None)


def test_the_window_of_the_environment_travels_in_the_source(
    project: Project, take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "120000")
    assert take(AUTO).post_compaction_percent == 17.5
    assert stored_window(project) == (f"claude-code:{ROW};window=env", 120_000)


def test_the_window_of_the_settings_travels_in_the_source(project: Project, take: Take, home_folder: Path) -> None:
    (home_folder / ".claude").mkdir()
    (home_folder / ".claude" / "settings.json").write_text(json.dumps({"autoCompactWindow": 140_000}))
    assert take(AUTO).post_compaction_percent == 15.0
    assert stored_window(project) == (f"claude-code:{ROW};window=setting", 140_000)


def test_the_users_window_comes_before_environment_and_settings(
    project: Project, take: Take, monkeypatch: pytest.MonkeyPatch, home_folder: Path
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "120000")
    (home_folder / ".claude").mkdir()
    (home_folder / ".claude" / "settings.json").write_text(json.dumps({"autoCompactWindow": 140_000}))
    take(AUTO, window=42_000)
    assert stored_window(project) == (f"claude-code:{ROW};window=user", 42_000)


@pytest.mark.parametrize(
    ("after_percent", "threshold", "state"),
    [(50.0, None, "handoff_candidate"), (50.0, 51, "continue"), (50.0, 1, "handoff_candidate")],
)
def test_the_threshold_is_the_policy_that_is_recorded(
    project: Project, take: Take, after_percent: float, threshold: int | None, state: str
) -> None:
    result = take(AUTO, window=42_000, threshold=threshold)
    assert (result.post_compaction_percent, result.state) == (after_percent, state)
    policy: Any = observed(project)[0].content()["policy"]
    assert policy == {"post_compaction_threshold_percent": threshold or 50}


# What is refused


@pytest.mark.parametrize("name", ["claude-manual-block-transcript.jsonl", "public-codex-subagent-session_meta.jsonl"])
def test_a_transcript_without_a_compaction_is_not_found(project: Project, take: Take, name: str) -> None:
    with pytest.raises(NotFound):
        take(name)
    assert revision(project) == 3


@pytest.mark.parametrize("name", ["foreign-copilot.jsonl", "foreign-gemini.jsonl", "foreign-opencode.jsonl"])
def test_a_transcript_of_a_host_that_is_not_read_is_unsupported(take: Take, name: str) -> None:
    with pytest.raises(Unsupported):
        take(name)


@pytest.mark.parametrize(("name", "host"), [(AUTO, "codex"), (CODEX, "claude-code")])
def test_a_transcript_of_another_host_than_stated_is_unsupported(take: Take, name: str, host: str) -> None:
    with pytest.raises(Unsupported):
        take(name, host=host)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"no json\n", b"\x00\xff\n"])
def test_an_empty_or_senseless_file_is_bad_input(take: Take, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file.jsonl").write_bytes(content)
    with pytest.raises(InvalidInput):
        take(tmp_path / "file.jsonl")


def test_a_missing_file_is_not_found_and_a_folder_or_device_is_bad_input(take: Take, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        take(tmp_path / "nothing.jsonl")
    for path in (tmp_path, Path("/dev/null")):
        with pytest.raises(InvalidInput):
            take(path)


def test_an_inactive_session_takes_nothing_and_still_knows_what_it_has(
    project: Project, session: str, take: Take, records: Path, write_rows: WriteRows
) -> None:
    take(write_rows(rows(records / TWO)[:30]))
    end(project, EndRequest(session=session, expected_revision=revision(project)))
    before = revision(project)
    with pytest.raises(InvalidTransition):
        take(TWO)
    assert (revision(project), len(observed(project))) == (before, 1)
    again = take(write_rows(rows(records / TWO)[:30]))
    assert outcomes(again) == [("already_recorded", None)]


def test_a_stale_revision_is_refused_and_nothing_is_recorded(project: Project, take: Take) -> None:
    with pytest.raises(RevisionConflict):
        take(TWO, expected_revision=2)
    assert observed(project) == []
    assert take(TWO, expected_revision=3).project_revision == 4


def test_a_session_that_is_unknown_or_without_work_is_refused(project: Project, take: Take) -> None:
    with pytest.raises(NotFound):
        take(AUTO, session="nothing")
    with pytest.raises(InvalidInput):
        take(AUTO, session=begin_session(project, work=None))
    assert observed(project) == []


def test_a_compaction_of_the_future_is_listed_as_out_of_bounds(tmp_path: Path, records: Path) -> None:
    early = make_project(tmp_path / "early", clock=Clock(1_700_000_000_000))
    request = ImportRequest(session=begin_session(early), transcript=str(records / AUTO))
    (one,) = import_transcript(early, request).compactions
    assert one.outcome == "skipped"
    assert str(one.reason).startswith("out_of_bounds")
    assert revision(early) == 3


def test_a_secret_in_a_row_is_not_recorded_and_not_echoed(
    project: Project, take: Take, records: Path, write_rows: WriteRows
) -> None:
    secret = "sk-ant-0123456789abcdefghij"
    changed = [row.replace(b"claude-opus-4-8", secret.encode()) for row in rows(records / AUTO)]
    try:
        text = str(take(write_rows(changed)))
    except AwrError as error:
        assert isinstance(error, RuleViolation)
        text = str(error.report())
    assert secret not in text
    assert observed(project) == []
    assert secret.encode() not in project.journal.path.read_bytes()


def test_an_import_can_be_inspected_like_any_observation(project: Project, session: str, take: Take) -> None:
    result = take(TWO, window=40_000)
    found = inspect(project, InspectRequest(session=session, include_observation=True))
    assert (found.state, found.guidance) == (result.state, result.guidance)
    assert found.state == "manual_observation"
    assert found.observation is not None
    assert found.previous_delta_percentage_points is None


def test_a_damaged_transcript_gives_the_same_records(
    project: Project, take: Take, records: Path, write_rows: WriteRows
) -> None:
    damaged: list[bytes] = []
    for row in rows(records / TWO):
        damaged += [row + b"\r", b'{"type":"unheard-of","x":1}', b"\xff\xfe not json", row[: len(row) // 2]]
    assert take(write_rows(damaged)).recorded == 2
    compared = take(TWO)
    assert outcomes(compared) == [("already_recorded", None)] * 2
    assert all(one.differences == {} for one in compared.compactions)
