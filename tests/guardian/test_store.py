"""Waiting for a turn: a locked database is waited for once by all who are there together."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from awr.guardian.guardian import Guardian
from awr.guardian.store import Store
from tests.support.acs import KEYS, PAYLOADS, Agent

TOOL = "steps/toolCallRequest"
BUSY_MS = 400


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "acs.db"


@pytest.fixture
def guardian(path: Path) -> Iterator[Guardian]:
    store = Store.open(path, now=0, create=True, busy_ms=BUSY_MS)
    yield Guardian(store, keys=KEYS, transports=("http",))
    store.close()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the database as another writer does."""
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        yield
    finally:
        other.close()


def denials(answers: list[Any]) -> set[tuple[str, ...]]:
    return {tuple(answer["result"].get("reason_codes", ())) for answer in answers}


def test_requests_that_are_there_together_wait_for_the_store_once(path: Path, guardian: Guardian) -> None:
    agent = Agent(guardian.answer)
    agent.begin()
    bodies = [json.dumps(agent.request(TOOL, PAYLOADS[TOOL])).encode() for _ in range(20)]
    with locked(path):
        began = time.monotonic()
        answers = list(map(json.loads, guardian.answer_together(bodies)))
        taken = time.monotonic() - began
    assert denials(answers) == {("store_unavailable",)}
    assert BUSY_MS / 1000 <= taken < 5 * BUSY_MS / 1000, "all of them waited together"
    assert agent.step(TOOL)["result"]["decision"] == "allow"


def test_who_has_not_waited_long_enough_is_not_answered_while_the_store_is_held(path: Path) -> None:
    store = Store.open(path, now=0, create=True, busy_ms=0)
    guardian = Guardian(store, keys=KEYS, transports=("http",))
    agent = Agent(guardian.answer)
    agent.begin()
    body = json.dumps(agent.request(TOOL, PAYLOADS[TOOL])).encode()
    with locked(path):
        assert guardian.answer_unless_held([body], waited=False) is None
        (denied,) = guardian.answer_unless_held([body], waited=True) or []
        assert json.loads(denied)["result"]["reason_codes"] == ["store_unavailable"]
    (allowed,) = guardian.answer_unless_held([body], waited=False) or []
    assert json.loads(allowed)["result"]["decision"] == "allow", "a denial that kept nothing used no id up"
    store.close()


def test_the_items_of_a_batch_wait_for_the_store_together(path: Path, guardian: Guardian) -> None:
    agent = Agent(guardian.answer)
    agent.begin()
    batch = [agent.request(TOOL, PAYLOADS[TOOL]) for _ in range(20)]
    with locked(path):
        began = time.monotonic()
        answers = agent.post(batch)
        taken = time.monotonic() - began
    assert denials(answers) == {("store_unavailable",)}
    assert taken < 5 * BUSY_MS / 1000


def test_a_request_that_comes_later_has_its_whole_patience_again(path: Path, guardian: Guardian) -> None:
    agent = Agent(guardian.answer)
    agent.begin()
    with locked(path):
        assert agent.step(TOOL)["result"]["reason_codes"] == ["store_unavailable"]
        began = time.monotonic()
        assert agent.step(TOOL)["result"]["reason_codes"] == ["store_unavailable"]
        assert time.monotonic() - began >= BUSY_MS / 1000
    # After one turn that was got, the next one to find it locked waits as long as the first did.
    assert agent.step(TOOL)["result"]["decision"] == "allow"
    with locked(path):
        began = time.monotonic()
        assert agent.step(TOOL)["result"]["reason_codes"] == ["store_unavailable"]
        assert time.monotonic() - began >= BUSY_MS / 1000
