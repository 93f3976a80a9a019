"""In what state a project's work is, in one word."""

from __future__ import annotations

import pytest

from awr.domain.organization import organization_of
from awr.domain.work import WorkItem


@pytest.mark.parametrize(
    ("statuses", "startable", "state"),
    [
        ([], False, "needs_organization"),
        (["planned"], True, "ready"),
        (["completed", "in_progress"], True, "ready"),
        (["blocked", "completed"], False, "blocked"),
        (["planned"], False, "blocked"),
        (["completed", "cancelled"], False, "completed"),
        (["cancelled"], False, "closed_without_completion"),
    ],
)
def test_the_state_follows_from_what_is_open_and_what_can_be_started(
    statuses: list[str], startable: bool, state: str
) -> None:
    items = [WorkItem(external_key=f"w{n}", title="W", status=one, line=1) for n, one in enumerate(statuses)]  # type: ignore[arg-type]
    assert organization_of(items, startable=startable).state == state
