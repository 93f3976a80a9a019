"""From a boundary to an observation, without a guess."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from awr.domain.compaction import Observation, validate_observation
from awr.hosts.discovery import read_transcript
from awr.hosts.observation import NotObservable, observation_of
from awr.hosts.transcript import Boundary, Request
from awr.hosts.window import NO_WINDOW, Window, WindowSource

ROW_ID = "297e1334-3132-4f4e-b0ec-31b053825a96"


@pytest.fixture
def boundary(records: Path) -> Boundary:
    (found,) = read_transcript(records / "claude-auto-allow-transcript.jsonl").threads[0].boundaries
    return found


def changed(boundary: Boundary, **fields: Any) -> Boundary:
    return msgspec.structs.replace(boundary, **fields)


def test_measured_boundary_is_a_host_reported_full_request(boundary: Boundary) -> None:
    found = observation_of(boundary, host="claude-code", window=Window(100_000, "env"))

    assert found == Observation(
        compaction_id=ROW_ID,
        sequence=1,
        observed_at=1796070926557,
        trigger="automatic",
        model="claude-opus-4-8",
        source=f"claude-code:{ROW_ID};window=env",
        measurement_scope="full_request",
        measurement_basis="host_reported",
        before_tokens=120_000,
        after_tokens=21_000,
        context_window_tokens=100_000,
        duration_ms=73,
    )
    validate_observation(found, now=2_000_000_000_000)


@pytest.mark.parametrize("source", ["row", "setting", "env", "user"])
def test_stated_window_travels_with_its_source(boundary: Boundary, source: WindowSource) -> None:
    found = observation_of(boundary, host="claude-code", window=Window(5, source))

    assert isinstance(found, Observation)
    assert (found.context_window_tokens, found.source) == (5, f"claude-code:{ROW_ID};window={source}")


@pytest.mark.parametrize("window", [NO_WINDOW, Window(200_000, "table")])
def test_table_or_missing_window_never_enters(boundary: Boundary, window: Window) -> None:
    found = observation_of(boundary, host="claude-code", window=window)

    assert isinstance(found, Observation)
    assert (found.context_window_tokens, found.source) == (None, f"claude-code:{ROW_ID}")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"row_id": None}, "row_id_missing"),
        ({"observed_at": None}, "time_missing"),
        ({"trigger": None}, "trigger_unknown"),
        ({"model": None}, "model_unknown"),
        ({"model": "m" * 129}, "model_unknown"),
        ({"after": None, "settled": False}, "measurement_pending"),
    ],
)
def test_boundary_without_a_needed_fact_is_refused_with_its_reason(
    boundary: Boundary, fields: dict[str, Any], reason: str
) -> None:
    assert observation_of(changed(boundary, **fields), host="claude-code", window=NO_WINDOW) == NotObservable(
        reason  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("settled", "final"), [(False, True), (True, False)])
def test_boundary_that_will_never_be_measured_is_an_unknown_measurement(
    boundary: Boundary, settled: bool, final: bool
) -> None:
    pending = changed(boundary, after=None, settled=settled)
    found = observation_of(pending, host="claude-code", window=NO_WINDOW, final=final)

    assert isinstance(found, Observation)
    assert (found.measurement_scope, found.measurement_basis, found.after_tokens) == ("unknown", "unknown", None)
    assert found.before_tokens == 120_000
    assert found.usage is None


def test_hosts_estimate_never_becomes_a_measurement(boundary: Boundary) -> None:
    found = observation_of(
        changed(boundary, before=None, after=Request(tokens=7, row=9)), host="claude-code", window=NO_WINDOW
    )

    assert isinstance(found, Observation)
    assert (found.before_tokens, found.after_tokens) == (None, 7)


def test_codex_boundary_has_no_trigger_to_record(records: Path) -> None:
    (found,) = read_transcript(records / "codex-pre-allow-transcript.jsonl").threads[0].boundaries

    assert observation_of(found, host="codex", window=Window(95_000, "row")) == NotObservable("trigger_unknown")
