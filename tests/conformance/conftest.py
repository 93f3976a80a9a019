"""A Guardian and an agent of it, whose clock the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from awr.guardian.guardian import Guardian
from awr.guardian.verdict import Policy
from tests.support.acs import Agent, guardian_at

NOW = 1_790_000_000_000


class Clock:
    """A clock that the test moves. In Unix milliseconds."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_guardian(tmp_path: Path, clock: Clock) -> Iterator[Callable[..., Guardian]]:
    """Give a function that opens a Guardian over one database, with a policy if the test has one."""
    made: list[Guardian] = []

    def make(policy: Policy | None = None) -> Guardian:
        made.append(guardian_at(tmp_path / "acs.db", clock=clock, policy=policy))
        return made[-1]

    yield make
    for guardian in made:
        guardian.store.close()


@pytest.fixture
def guardian(make_guardian: Callable[..., Guardian]) -> Guardian:
    return make_guardian()


@pytest.fixture
def agent(guardian: Guardian, clock: Clock) -> Agent:
    """An agent that has not shaken hands yet."""
    return Agent(guardian.answer, clock=clock)
