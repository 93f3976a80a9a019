"""A chain is as it was written, or the first place where it is not is named."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from pathlib import Path
from typing import Any

import pytest

from awr.guardian.entries import entry_hash
from awr.guardian.guardian import Guardian
from awr.guardian.store import Session, Store
from awr.guardian.verification import exported, missing_guards, verify
from tests.support.acs import PAYLOADS, TEXT, Agent, guardian_at, provenance

TOOL = "steps/toolCallRequest"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "acs.db"


def recorded(path: Path, *, steps: int, end: bool = False) -> tuple[Guardian, Agent, list[str]]:
    """Return a Guardian, an agent that has sent steps to it, and the heads that were published."""
    guardian = guardian_at(path)
    agent = Agent(guardian.answer)
    agent.begin()
    heads = [agent.step(TOOL)["result"]["chain_hash"] for _ in range(steps)]
    if end:
        heads.append(agent.step("steps/sessionEnd")["result"]["chain_hash"])
    return guardian, agent, heads


def session_in(store: Store, agent: Agent) -> Session:
    found = store.session(agent.session_id)
    assert found is not None
    return found


def tampered(path: Path, *statements: str) -> None:
    """Change a database as somebody with a shell would, past its guards."""
    connection = sqlite3.connect(path)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_every_published_head_is_in_the_chain(path: Path) -> None:
    guardian, agent, heads = recorded(path, steps=5, end=True)
    found = verify(guardian.store, session_in(guardian.store, agent), witnessed=tuple(heads))
    assert (found.broken, found.entries, found.head, found.sealed) == (None, 6, heads[-1], True)


@pytest.mark.parametrize(
    ("statement", "position", "problem"),
    [
        ("DELETE FROM acs_entries WHERE position = 3", 4, "entries 3 to 3 are missing"),
        ("UPDATE acs_entries SET link = zeroblob(32) WHERE position = 2", 2, "does not link"),
        ("UPDATE acs_entries SET step_type = 'steps/turnEnd' WHERE position = 2", 2, "its step is not the one"),
        ("UPDATE acs_entries SET step_id = zeroblob(16) WHERE position = 2", 2, "its step is not the one"),
        (
            "UPDATE acs_contents SET entry = CAST(replace(CAST(entry AS TEXT), 'toolCallRequest', 'toolCallResult') "
            "AS BLOB) WHERE position = 2",
            2,
            "does not link",
        ),
        ("DELETE FROM acs_contents WHERE position = 2", 2, "not there, nor in an archive"),
        ("DELETE FROM acs_provenance WHERE position = 4", 4, "its provenance"),
        ("UPDATE acs_provenance SET origin = 'user_input' WHERE position = 4", 4, "its provenance"),
        ("DELETE FROM acs_entries WHERE position = 5", 5, "does not end at the head"),
        ("UPDATE acs_sessions SET summary = '{}'", 5, "summary of provenance"),
        ("UPDATE acs_sessions SET sealed_at = 1", 5, "its last entry is not its end"),
    ],
)
def test_whatever_is_changed_behind_its_back_is_named(
    path: Path, statement: str, position: int, problem: str
) -> None:
    guardian, agent, _ = recorded(path, steps=5)
    guardian.store.close()
    tampered(path, statement)
    store = Store.read(path)
    broken = verify(store, session_in(store, agent)).broken
    assert broken is not None
    assert (broken.session_id, broken.position) == (agent.session_id, position)
    assert problem in broken.problem
    assert len(missing_guards(store)) > 10
    store.close()


def test_a_chain_that_was_cut_and_linked_anew_lacks_a_head_that_was_witnessed(path: Path) -> None:
    guardian, agent, heads = recorded(path, steps=3)
    guardian.store.close()
    # What a Guardian that wants to hide its last step would do: forget it and go on from the one before.
    tampered(
        path,
        "DELETE FROM acs_entries WHERE position = 3",
        "DELETE FROM acs_provenance WHERE position = 3",
        "UPDATE acs_sessions SET entries = 2, head = (SELECT link FROM acs_entries WHERE position = 2)",
    )
    connection = sqlite3.connect(path)
    (summary,) = connection.execute("SELECT summary FROM acs_sessions").fetchone()
    changed = json.loads(summary)
    changed["entry_count"] = 2
    changed["entry_count_by_origin"] = dict.fromkeys(changed["entry_count_by_origin"], 2)
    connection.execute("UPDATE acs_sessions SET summary = ?", (json.dumps(changed),))
    connection.commit()
    connection.close()
    store = Store.read(path)
    session = session_in(store, agent)
    assert verify(store, session).broken is None, "inside, the forged chain is whole"
    broken = verify(store, session, witnessed=tuple(heads)).broken
    assert broken is not None
    assert "1 of the witnessed heads" in broken.problem
    store.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE acs_entries SET decision = 'allow'",
        "UPDATE acs_contents SET facts = '{}'",
        "DELETE FROM acs_contents",
        "INSERT OR REPLACE INTO acs_contents SELECT * FROM acs_contents LIMIT 1",
        "DELETE FROM acs_entries",
        "INSERT OR REPLACE INTO acs_entries SELECT * FROM acs_entries LIMIT 1",
        "DELETE FROM acs_sessions",
        "UPDATE acs_sessions SET agent_id = 'other'",
        "UPDATE acs_sessions SET entries = 0",
        "INSERT OR REPLACE INTO acs_sessions SELECT * FROM acs_sessions LIMIT 1",
        "DELETE FROM acs_seen",
        "UPDATE acs_seen SET session_id = 'other'",
        "DELETE FROM acs_provenance",
        "UPDATE acs_provenance SET origin = 'user_input'",
        "DELETE FROM acs_archives",
        "UPDATE acs_archives SET last_position = 0",
        "DELETE FROM acs_subagents",
        "UPDATE acs_subagents SET child_session_id = 'other'",
    ],
)
def test_the_database_itself_refuses_every_change_of_a_chain(path: Path, statement: str) -> None:
    guardian, agent, _ = recorded(path, steps=2)
    agent.step("steps/subagentStart")
    other = Agent(guardian.answer)
    other.begin()
    other.step("steps/sessionEnd")
    guardian.store.close()
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()


def test_an_exported_chain_can_be_checked_with_nothing_of_ours(path: Path) -> None:
    guardian, agent, heads = recorded(path, steps=4, end=True)
    first, *lines = map(json.dumps, exported(guardian.store, session_in(guardian.store, agent)))
    previous = b""
    for line, head in zip(lines, heads, strict=True):
        entry = json.loads(line)["entry"]
        stated, before = entry.pop("entry_hash"), entry.pop("previous_hash", None)
        # This entry has neither a fraction nor a character outside of ASCII, so sorted JSON is its canonical form.
        canonical = json.dumps(entry, sort_keys=True, separators=(",", ":")).encode()
        assert before == (previous.hex() or None)
        previous = hashlib.sha256(canonical + previous).digest()
        assert previous.hex() == stated == head
    session = json.loads(first)
    assert (session["chain_hash"], session["entries"]) == (heads[-1], 5)
    assert TEXT not in first + "".join(lines)


def test_an_exported_first_entry_has_no_previous_hash_and_is_hashed_as_the_standard_says(path: Path) -> None:
    guardian, agent, heads = recorded(path, steps=1)
    _, line = exported(guardian.store, session_in(guardian.store, agent))
    assert "previous_hash" not in line["entry"]
    assert entry_hash(line["entry"], previous_hash=None) == heads[0]


class TestArchive:
    """Entries beyond 64 KB are packed; the chain, the steps and the lineage stay."""

    STEPS = 400

    @pytest.fixture
    def long(self, path: Path) -> tuple[Guardian, Agent, list[str]]:
        return recorded(path, steps=self.STEPS)

    def test_a_long_session_is_packed_and_still_verifies(self, long: tuple[Guardian, Agent, list[str]]) -> None:
        guardian, agent, heads = long
        packed = guardian.store.database.rows("SELECT first_position, last_position FROM acs_archives")
        assert len(packed) >= 2
        assert [row["first_position"] for row in packed[1:]] == [row["last_position"] + 1 for row in packed[:-1]]
        live = guardian.store.database.rows("SELECT count(*) FROM acs_contents")[0][0]
        assert live == self.STEPS - packed[-1]["last_position"]
        found = verify(guardian.store, session_in(guardian.store, agent), witnessed=tuple(heads))
        assert (found.broken, found.entries) == (None, self.STEPS)

    def test_a_packed_entry_is_shown_like_any_other(self, long: tuple[Guardian, Agent, list[str]]) -> None:
        guardian, agent, _ = long
        rows = list(guardian.store.entries(session_in(guardian.store, agent)))
        assert {row["facts"]["tool_name"] for row in rows} == {"Bash"}
        assert [row["position"] for row in rows] == list(range(1, self.STEPS + 1))
        page = list(guardian.store.entries(session_in(guardian.store, agent), after=10, limit=3))
        assert [row["position"] for row in page] == [11, 12, 13]
        assert page[0]["entry"] == rows[10]["entry"]

    def test_a_replay_of_a_packed_step_is_still_a_replay(self, path: Path) -> None:
        guardian, agent, _ = recorded(path, steps=0)
        request = agent.request(TOOL, PAYLOADS[TOOL])
        assert agent.post(request)["result"]["decision"] == "allow"
        agent.step("steps/sessionEnd")
        assert guardian.store.database.rows("SELECT * FROM acs_contents") == []
        assert agent.post(request)["error"]["code"] == -32005

    def test_the_lineage_of_a_packed_step_is_still_known(self, path: Path) -> None:
        guardian, agent, _ = recorded(path, steps=self.STEPS)
        derived = {"type": "text", "value": "x", "provenance": provenance("p-new", "agent_generated", "p-arg")}
        agent.step("steps/userMessage")
        agent.ask("steps/agentResponse", {"content": [derived]})
        session = session_in(guardian.store, agent)
        rows = guardian.store.database.rows("SELECT depth FROM acs_provenance WHERE provenance_id = 'p-new'")
        # p-arg derives from p-user, which came after it: what lies under it is not known, and nobody guesses.
        assert rows[0]["depth"] is None
        later = {"type": "text", "value": "x", "provenance": provenance("p-later", "agent_generated", "p-user")}
        agent.ask("steps/agentResponse", {"content": [later]})
        rows = guardian.store.database.rows("SELECT depth FROM acs_provenance WHERE provenance_id = 'p-later'")
        assert rows[0]["depth"] == 1
        assert verify(guardian.store, session_in(guardian.store, agent)).broken is None
        assert session.summary["origins_seen"] == ["agent_generated", "user_input"]

    @pytest.mark.parametrize("broken", ["missing", "not packed", "another entry"])
    def test_an_archive_that_was_changed_is_named(
        self, long: tuple[Guardian, Agent, list[str]], path: Path, broken: str
    ) -> None:
        guardian, agent, _ = long
        row = guardian.store.database.rows("SELECT content FROM acs_archives LIMIT 1")[0]
        content: list[Any] = json.loads(zlib.decompress(row["content"]))
        content[4][0] = content[4][0].replace("Request", "Result")
        forged = zlib.compress(json.dumps(content).encode()).hex()
        guardian.store.close()
        statement = {
            "missing": "DELETE FROM acs_archives WHERE first_position = 1",
            "not packed": "UPDATE acs_archives SET content = x'00' WHERE first_position = 1",
            "another entry": f"UPDATE acs_archives SET content = x'{forged}' WHERE first_position = 1",
        }[broken]
        tampered(path, statement)
        store = Store.read(path)
        found = verify(store, session_in(store, agent)).broken
        assert found is not None
        assert found.position == (5 if broken == "another entry" else 1)
        store.close()
