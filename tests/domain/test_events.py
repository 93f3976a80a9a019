"""Which events callers may append, and within which bounds."""

from __future__ import annotations

from typing import Any

import pytest

from awr.domain.events import EVENT_TYPES, is_reserved, validate_generic_event
from awr.errors import InvalidInput


@pytest.mark.parametrize("event_type", sorted(EVENT_TYPES))
def test_no_caller_can_forge_an_event_of_awrs_own(event_type: str) -> None:
    assert is_reserved(event_type)
    with pytest.raises(InvalidInput, match="reserved"):
        validate_generic_event(event_type=event_type, summary="forged", payload={})


@pytest.mark.parametrize(
    "event_type",
    [
        "source.x",
        "checkpoint.created",
        "proposal.created",
        "branch.created",
        "client.compaction_observed",
        "client.anything",
        "execution.started",
        "mcp.wait_created",
        "management.assessed",
        "session.resumed",
        "work.completed",
        "evidence.recorded",
    ],
)
def test_reserved_prefixes_and_names_are_refused(event_type: str) -> None:
    with pytest.raises(InvalidInput, match="reserved"):
        validate_generic_event(event_type=event_type, summary="x", payload={})


@pytest.mark.parametrize("event_type", ["note.added", "sources.x", "clientele", "a", "A_b:c-d.9", "x" * 128])
def test_other_names_are_accepted(event_type: str) -> None:
    validate_generic_event(event_type=event_type, summary="x", payload={})


@pytest.mark.parametrize("event_type", ["", "x" * 129, "with space", "ünïcode", "a/b", "a\n"])
def test_a_name_outside_its_characters_is_refused(event_type: str) -> None:
    with pytest.raises(InvalidInput, match="event type"):
        validate_generic_event(event_type=event_type, summary="x", payload={})


@pytest.mark.parametrize("summary", ["", "   ", "x" * 8193])
def test_a_summary_outside_its_bounds_is_refused(summary: str) -> None:
    with pytest.raises(InvalidInput, match="summary"):
        validate_generic_event(event_type="note.added", summary=summary, payload={})


@pytest.mark.parametrize(
    "payload",
    [
        {"status": "ok", "error_code": "x" * 128, "tool": "t" * 256, "operation": "o"},
        {"command": "c" * 4096, "report": "r", "detail": "d", "body": "b", "stdout": "", "stderr": ""},
        {"exit_code": -1, "duration_ms": 0, "count": 2**63 - 1, "attempt": 1},
        {"changed_entities": ["x" * 512] * 256, "tags": ["t" * 128] * 32},
        {"metrics": {"ratio": 0.5, "n": 3}},
    ],
)
def test_documented_payload_fields_are_accepted_up_to_their_bounds(payload: dict[str, Any]) -> None:
    validate_generic_event(event_type="note.added", summary="x", payload=payload)


@pytest.mark.parametrize(
    "payload",
    [
        {"error_code": "x" * 129},
        {"tool": "t" * 257},
        {"command": "c" * 4097},
        {"status": None},
        {"status": 1},
        {"exit_code": 1.5},
        {"exit_code": True},
        {"count": -1},
        {"changed_entities": ["x"] * 257},
        {"changed_entities": ["x" * 513]},
        {"tags": "one"},
        {"tags": ["t"] * 33},
        {"metrics": {"x" * 65: 1}},
        {"metrics": {"": 1}},
        {"metrics": {"n": "1"}},
        {"metrics": {"n": float("inf")}},
        {"metrics": {str(n): n for n in range(33)}},
        {"unheard_of": 1},
        {"mcp_operation_id": "x"},
    ],
)
def test_a_payload_field_outside_its_bound_is_refused(payload: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="payload"):
        validate_generic_event(event_type="note.added", summary="x", payload=payload)


def test_a_refused_payload_is_not_repeated_in_the_error() -> None:
    with pytest.raises(InvalidInput) as caught:
        validate_generic_event(event_type="note.added", summary="x", payload={"hunter2": "swordfish"})
    assert "hunter2" not in str(caught.value.report())
    assert "swordfish" not in str(caught.value.report())
