"""The table of transitions and what each action asks for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from awr.domain.transition import (
    TEXT_LIMITS,
    TRANSITIONS,
    Action,
    bounded_note,
    draft_gaps,
    require_status,
    validate_inputs,
)
from awr.domain.work import Status, WorkItem
from awr.errors import InvalidInput, InvalidTransition

#: Action: from, to, needs a claim, needs dependencies.
CONTRACT = {
    "progress": ("planned ready claimed in_progress", "in_progress", True, True),
    "block": ("in_progress", "blocked", True, False),
    "unblock": ("blocked", "in_progress", False, True),
    "cancel": ("planned ready claimed in_progress blocked", "cancelled", False, False),
    "reopen": ("completed cancelled", "planned", False, False),
    "complete": ("in_progress", "completed", True, True),
}
REQUIRED = {"progress": "next_action", "block": "blocker", "unblock": "next_action", "reopen": "next_action"}


def work(status: Status, **fields: object) -> WorkItem:
    return WorkItem(external_key="w", title="Work", status=status, line=1, **fields)  # type: ignore[arg-type]


def test_the_table_is_the_contracts() -> None:
    found = {
        row.action: (" ".join(row.sources), row.target, row.needs_claim, row.needs_dependencies)
        for row in TRANSITIONS.values()
    }
    assert found == CONTRACT
    assert {name: row.requires[0] for name, row in TRANSITIONS.items() if row.requires} == REQUIRED
    assert {name for name, row in TRANSITIONS.items() if row.releases_claims} == {"cancel", "complete"}
    assert {name for name, row in TRANSITIONS.items() if "blocker" in row.clears} == {"unblock", "cancel", "reopen"}
    assert TRANSITIONS["reopen"].clears == ("blocker", "ordinary_completion")


@pytest.mark.parametrize("action", get_args(Action))
@pytest.mark.parametrize("status", get_args(Status))
def test_an_action_from_a_state_that_the_table_does_not_list_is_refused(action: Action, status: Status) -> None:
    if status in CONTRACT[action][0].split():
        require_status(TRANSITIONS[action], work(status))
        with pytest.raises(InvalidTransition):
            require_status(TRANSITIONS[action], work(status, archived=True))
        return
    with pytest.raises(InvalidTransition) as caught:
        require_status(TRANSITIONS[action], work(status))
    assert ("activate" in str(caught.value.details["next_step"])) == (status == "draft")


@pytest.mark.parametrize(("action", "name"), REQUIRED.items())
def test_a_required_text_that_is_missing_is_refused(action: Action, name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        validate_inputs(TRANSITIONS[action], reason="because", texts={})
    assert name in str(caught.value.details["got"])
    assert validate_inputs(TRANSITIONS[action], reason="because", texts={name: "x"}) == {name: "x"}


def test_a_text_of_another_action_is_refused() -> None:
    with pytest.raises(InvalidInput):
        validate_inputs(TRANSITIONS["cancel"], reason="because", texts={"next_action": "x"})
    with pytest.raises(InvalidInput):
        validate_inputs(TRANSITIONS["complete"], reason="because", texts={"summary": "x"})


@pytest.mark.parametrize(("name", "limit"), [("reason", 4096), ("next_action", 4096), ("summary", 16384)])
def test_a_text_at_its_limit_passes_and_one_byte_more_is_refused_without_repeating_it(name: str, limit: int) -> None:
    assert TEXT_LIMITS[name] == limit
    assert bounded_note(name, "x" * limit, limit=limit)
    with pytest.raises(InvalidInput) as caught:
        bounded_note(name, "é" * (limit // 2) + "y", limit=limit)
    assert str(limit + 1) in str(caught.value.report())
    assert "y" * 2 not in str(caught.value.report())


@pytest.mark.parametrize("text", ["", " \n", "a\x00b", "a\x1b[0m", "\ud800"])
def test_a_text_that_is_blank_or_has_control_characters_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        bounded_note("reason", text, limit=4096)


def test_a_text_of_several_lines_in_any_script_passes() -> None:
    assert bounded_note("reason", "一\u3000二\n\tthree 👩\u200d💻", limit=4096)


def test_a_draft_lists_everything_that_it_lacks() -> None:
    every = draft_gaps(work("draft"), goal_serves=False, standard=True, has_rules=False, has_milestone=False)
    assert len(every) == 5
    full = work("draft", acceptance=("a",), next_action="b")
    assert draft_gaps(full, goal_serves=True, standard=False, has_rules=False, has_milestone=False) == ()
    assert len(draft_gaps(full, goal_serves=True, standard=True, has_rules=False, has_milestone=False)) == 2


def test_the_reference_page_has_the_table() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "transitions.md").read_text()
    for row in TRANSITIONS.values():
        line = next(line for line in text.splitlines() if line.startswith(f"| `{row.action}` |"))
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert re.findall(r"`(\w+)`", cells[1]) == list(row.sources)
        assert cells[2] == f"`{row.target}`"
        assert (cells[3], cells[4]) == tuple(
            "yes" if needed else "no" for needed in (row.needs_claim, row.needs_dependencies)
        )
        assert all(f"`{name}`" in cells[5] for name in row.requires)
        assert f"`{row.event_type}`" in line
