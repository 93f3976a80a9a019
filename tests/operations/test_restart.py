"""How large a restart would be: four parts, nothing guessed, no cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from awr.context.restart import Part
from awr.context.tokens import TokenCounter
from awr.domain.compaction import Observation
from awr.errors import InvalidInput, NotFound
from awr.operations.compaction import ObserveRequest, observe
from awr.operations.restart import RestartRequest, RestartResult, restart_estimate
from awr.project import Project
from tests.support.contexts import make_context_project, save, shown, write_source
from tests.support.projects import begin_session, revision

HOST: dict[str, Any] = {
    "fixed_tokens": 9_000,
    "fixed_basis": "host_reported",
    "tools_tokens": 14_000,
    "tools_basis": "measured",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_context_project(tmp_path / "p")


@pytest.fixture
def session(project: Project) -> str:
    found = begin_session(project)
    save(project, found)
    return found


def ask(project: Project, session: str, **fields: Any) -> RestartResult:
    return restart_estimate(project, RestartRequest(session=session, **fields))


def compact(project: Project, session: str, *, sequence: int = 1, **fields: Any) -> str:
    given = {
        "compaction_id": f"c-{sequence}",
        "sequence": sequence,
        "observed_at": 1,
        "trigger": "automatic",
        "model": "m",
        "source": "s",
        "measurement_scope": "full_request",
        "measurement_basis": "host_reported",
        "before_tokens": 190_000,
        "after_tokens": 128_000,
        **fields,
    }
    request = ObserveRequest(
        session=session, expected_revision=revision(project), observation=msgspec.convert(given, Observation)
    )
    event_id = observe(project, request).recorded_event_id
    assert isinstance(event_id, str)
    return event_id


def test_four_known_parts_are_added_up_and_compared(project: Project, session: str) -> None:
    event = compact(project, session)
    result = ask(project, session, **HOST)
    context = shown(project, None, session=session)
    digest = TokenCounter(None).count("Grammar half written")
    assert result.fixed_instructions == Part(9_000, "host_reported")
    assert result.tools == Part(14_000, "measured")
    assert result.required_context == Part(context.required_tokens, "o200k_base_estimate")
    assert result.recovery_material == Part(digest, "o200k_base_estimate")
    assert result.total == 23_000 + context.required_tokens + digest
    assert (result.last_footprint.tokens, result.last_footprint.observation_event_id) == (128_000, event)
    assert result.smaller is True
    assert (result.cost, result.session_switch_performed) == (None, False)
    assert "an estimate for others" in result.count_note


def test_a_restart_that_is_not_smaller_is_said_to_be_so(project: Project, session: str) -> None:
    compact(project, session, after_tokens=10_000)
    assert ask(project, session, **HOST).smaller is False


def test_an_equal_size_is_not_smaller(project: Project, session: str) -> None:
    total = ask(project, session, **HOST).total
    compact(project, session, after_tokens=total)
    assert ask(project, session, **HOST).smaller is False


@pytest.mark.parametrize("missing", ["fixed", "tools"])
def test_a_part_that_the_host_has_not_said_leaves_sum_and_comparison_unknown(
    project: Project, session: str, missing: str
) -> None:
    compact(project, session)
    result = ask(project, session, **{name: value for name, value in HOST.items() if not name.startswith(missing)})
    part = result.fixed_instructions if missing == "fixed" else result.tools
    assert (part.tokens, part.basis) == (None, "unknown")
    assert part.reason
    assert (result.total, result.smaller) == (None, None)


def test_zero_is_a_size_and_not_unknown(project: Project, session: str) -> None:
    assert ask(project, session, **{**HOST, "tools_tokens": 0}).total is not None


def test_without_a_checkpoint_there_is_no_recovery_material_and_no_sum(project: Project) -> None:
    session = begin_session(project)
    compact(project, session)
    result = ask(project, session, **HOST)
    assert (result.recovery_material.tokens, result.total, result.smaller) == (None, None, None)
    assert result.recovery_material.reason


def test_incomplete_context_has_no_known_size(project: Project, session: str) -> None:
    compact(project, session)
    write_source(project, "work-ledger.yaml", "    next_action: Write the grammar\n", "")
    result = ask(project, session, **HOST)
    assert (result.required_context.tokens, result.context_complete, result.smaller) == (None, False, None)


@pytest.mark.parametrize(
    "unusable",
    [
        {"measurement_scope": "history_only"},
        {"measurement_scope": "unknown"},
        {"measurement_basis": "estimated"},
        {"measurement_basis": "unknown"},
        {"after_tokens": None},
    ],
)
def test_only_what_the_host_measured_of_a_whole_request_is_a_footprint(
    project: Project, session: str, unusable: dict[str, Any]
) -> None:
    compact(project, session)
    compact(project, session, sequence=2, **unusable)
    result = ask(project, session, **HOST)
    assert result.last_footprint.tokens is None
    assert result.last_footprint.reason
    assert result.total is not None
    assert result.smaller is None


def test_no_observation_is_no_footprint(project: Project, session: str) -> None:
    result = ask(project, session, **HOST)
    assert (result.last_footprint.tokens, result.last_footprint.observation_event_id) == (None, None)
    assert result.smaller is None


@pytest.mark.parametrize("half", [{"fixed_tokens": 1}, {"fixed_basis": "measured"}, {"tools_tokens": 1}])
def test_a_size_and_its_basis_belong_together(project: Project, session: str, half: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        ask(project, session, **half)


def test_an_unknown_session_is_not_found(project: Project) -> None:
    with pytest.raises(NotFound):
        ask(project, "01M8Q9W0H5ZVHD9HKJBFPCHAPW")
