"""A Guardian that listens, once for a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.acs import Agent
from tests.support.doors import Client, Door, agent_of, guarding


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """One Guardian for every test of a module."""
    with guarding(tmp_path_factory.mktemp("guardian")) as found:
        yield found


@pytest.fixture
def client(door: Door) -> Iterator[Client]:
    """One connection."""
    with door.client() as found:
        yield found


@pytest.fixture
def agent(client: Client) -> Agent:
    """An agent whose session has not begun."""
    return agent_of(client)
