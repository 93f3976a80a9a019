"""Trust goes up by an operator's word only, and what derives from the data goes up with them."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from awr.errors import InvalidInput, NotFound, RuleViolation
from awr.guardian.store import Store
from awr.operations.guardian_endorse import TOKEN_VARIABLE, EndorseRequest, endorse
from awr.operations.registry import operation_named
from tests.guardian.test_judge import asked, judged, read, said
from tests.support.acs import Agent

DATABASE = "acs.db"


def request(agent: Agent, *data: str, accept: bool = True, everything: bool = False) -> EndorseRequest:
    return EndorseRequest(
        session=agent.session_id,
        who="me",
        why="I read it",
        data=data,
        all=everything or None,
        accept=accept or None,
        database=DATABASE,
    )


@pytest.fixture
def token(home_folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The operator's token, given as somebody without a terminal gives it."""
    text = "an operator's token, which is 32 bytes long"
    place = home_folder / ".config" / "awr"
    place.mkdir(parents=True)
    (place / "operator.token").write_text(text + "\n")
    (place / "operator.token").chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home_folder / ".config"))
    monkeypatch.setenv(TOKEN_VARIABLE, text)
    return text


@pytest.mark.usefixtures("token")
def test_endorsed_data_may_be_folded_and_others_may_not(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    steps = [said(agent, "u"), read(agent, "t1"), read(agent, "t2")]
    found = endorse(tmp_path, request(agent, "t1"))
    assert (found.recorded, found.number, found.endorsed, found.confirmed_by) == (True, 1, 1, "token")
    first = asked(agent, steps)
    assert (first["decision"], first["cited_provenance_ids"]) == ("deny", ["t2"])
    endorse(tmp_path, request(agent, "t2"))
    _, again = judged(tmp_path, "trust-boundary")
    successor = Agent(again.send, session_id=agent.session_id)
    assert asked(successor, steps)["policy_data"]["fides"] == {"integrity": "trusted"}


@pytest.mark.usefixtures("token")
def test_what_comes_after_an_endorsement_is_not_covered_by_it(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    steps = [read(agent, "t1")]
    endorse(tmp_path, request(agent, everything=True))
    steps.append(read(agent, "t2"))
    assert asked(agent, steps)["cited_provenance_ids"] == ["t2"]


@pytest.mark.usefixtures("token")
def test_under_strict_only_an_endorsement_grounds_a_session_again(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "strict")
    steps = [read(agent, "t1"), said(agent, "u")]
    assert asked(agent, steps)["decision"] == "deny"
    endorse(tmp_path, request(agent, "t1"))
    assert asked(agent, steps)["decision"] == "allow"


def test_without_accept_nothing_is_recorded(tmp_path: Path) -> None:
    guardian, agent = judged(tmp_path, "trust-boundary")
    read(agent, "t1")
    found = endorse(tmp_path, request(agent, "t1", accept=False))
    assert (found.recorded, found.number) == (False, None)
    session = guardian.store.session(agent.session_id)
    assert session is not None
    assert guardian.store.endorsements(session, after=0) == []


def test_nobody_at_a_terminal_and_no_token_is_refused(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    read(agent, "t1")
    with pytest.raises(RuleViolation, match="nobody is at a terminal"):
        endorse(tmp_path, request(agent, "t1"))


def test_another_token_is_refused(tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    read(agent, "t1")
    monkeypatch.setenv(TOKEN_VARIABLE, token + "x")
    with pytest.raises(RuleViolation, match="token is not given"):
        endorse(tmp_path, request(agent, "t1"))


def test_somebody_at_a_terminal_needs_no_token(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    read(agent, "t1")
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "awr", "--project", str(tmp_path), "guardian", "endorse", agent.session_id),
            *("--data", "t1", "--who", "me", "--why", "I read it", "--accept", "--database", DATABASE),
        ],
        stdin=theirs,
        capture_output=True,
        text=True,
        check=True,
    )
    os.close(ours)
    os.close(theirs)
    assert done.stdout == "Raised 1 of the session's data to trusted: endorsement 1, confirmed by terminal.\n"


def test_data_that_the_session_does_not_have_are_refused(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    read(agent, "t1")
    with pytest.raises(InvalidInput, match="does not have"):
        endorse(tmp_path, request(agent, "elsewhere"))
    with pytest.raises(InvalidInput, match="names data"):
        endorse(tmp_path, request(agent))
    with pytest.raises(InvalidInput, match="names data"):
        endorse(tmp_path, request(agent, "t1", everything=True))
    with pytest.raises(NotFound):
        endorse(tmp_path, EndorseRequest(session="none", who="me", why="x", all=True, database=DATABASE))


@pytest.mark.usefixtures("token")
def test_an_endorsement_stays_as_it_was_recorded(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    read(agent, "t1")
    endorse(tmp_path, request(agent, "t1"))
    store = Store.open(tmp_path / DATABASE, now=0, create=False)
    for statement in ("DELETE FROM acs_endorsements", "UPDATE acs_endorsements SET confirmed_by = 'nobody'"):
        with pytest.raises(Exception, match="append-only"):
            store.database.execute(statement)
    store.close()


def test_no_agents_transport_reaches_it() -> None:
    assert not operation_named("guardian.endorse").exposed
