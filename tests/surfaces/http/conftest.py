"""The team's service, once for a module or for one test alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.team import Serve, Team, served_team


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """One service for every test of a module."""
    with served_team(tmp_path_factory.mktemp("team")) as served:
        yield served


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Start a service for this test alone."""

    def start(*, head: str = "", script: str | None = None) -> AbstractContextManager[Team]:
        return served_team(tmp_path, head=head, script=script)

    return start
