"""The chain of a session: what is in it, how its head is published, what it commits to, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from awr.guardian.entries import entry_hash, request_hash
from awr.guardian.guardian import Guardian
from awr.guardian.store import ARCHIVE_BYTES
from awr.guardian.verdict import Verdict
from awr.guardian.verification import exported, verify
from tests.conformance.conftest import Clock
from tests.conformance.measures import Says
from tests.conformance.measures import session as session_of
from tests.conformance.requirements import covers
from tests.support.acs import PAYLOADS, Agent, provenance

TOOL = "steps/toolCallRequest"


def entries(guardian: Guardian, agent: Agent) -> list[dict[str, Any]]:
    """Return the entries of a session as anybody can check them."""
    return [line["entry"] for line in exported(guardian.store, session_of(guardian.store, agent)) if "entry" in line]


@covers("chain")
@covers("chain-head")
def test_the_published_heads_are_what_anybody_computes_from_the_entries(guardian: Guardian, agent: Agent) -> None:
    agent.begin()
    published = [agent.step(method)["result"]["chain_hash"] for method in PAYLOADS]
    previous = None
    for entry, head in zip(entries(guardian, agent), published, strict=True):
        assert entry_hash(entry, previous_hash=previous) == entry["entry_hash"] == head
        assert entry.get("previous_hash") == previous
        previous = head


@covers("chain-head")
def test_an_answer_for_which_no_entry_was_written_has_no_head(agent: Agent) -> None:
    hello = agent.begin()
    ping = agent.ask("system/ping", {})
    refused = agent.ask(TOOL, {})
    assert not any("chain_hash" in json.dumps(answer) for answer in (hello, ping, refused))


@covers("chain-head")
def test_a_head_that_is_changed_on_its_way_breaks_the_signature(agent: Agent) -> None:
    agent.begin()
    answer = agent.step(TOOL)
    assert agent.is_signed(answer)
    head = answer["result"]["chain_hash"]
    answer["result"]["chain_hash"] = ("1" if head[0] == "0" else "0") + head[1:]
    assert not agent.is_signed(answer)


@covers("chain")
def test_a_denied_step_is_in_the_chain(make_guardian: Callable[..., Guardian], clock: Clock) -> None:
    guardian = make_guardian(Says(Verdict(decision="deny", reasoning="no"), on=TOOL))
    agent = Agent(guardian.answer, clock=clock)
    agent.begin()
    heads = [agent.step(TOOL)["result"] for _ in range(2)]
    assert [result["decision"] for result in heads] == ["deny", "deny"]
    assert [entry["entry_hash"] for entry in entries(guardian, agent)] == [one["chain_hash"] for one in heads]


@covers("chain")
def test_a_packed_chain_is_the_same_chain(guardian: Guardian, agent: Agent) -> None:
    agent.begin()
    heads = []
    while not guardian.store.database.rows("SELECT 1 FROM acs_archives"):
        heads.append(agent.step(TOOL)["result"]["chain_hash"])
        assert len(heads) * 200 < 2 * ARCHIVE_BYTES, "entries beyond the threshold are packed"
    session = session_of(guardian.store, agent)
    assert [entry["entry_hash"] for entry in entries(guardian, agent)] == heads
    assert verify(guardian.store, session, witnessed=tuple(heads)).broken is None
    assert (session.head or b"").hex() == heads[-1]
    assert session.summary["entry_count"] == len(heads)


@covers("chain-mismatch")
def test_a_right_view_of_the_head_is_allowed_and_a_wrong_one_denied(agent: Agent) -> None:
    agent.begin()
    head = agent.step(TOOL)["result"]["chain_hash"]
    right = agent.step(TOOL, metadata={"session_state": {"chain_hash": head}})["result"]
    wrong = agent.step(TOOL, metadata={"session_state": {"chain_hash": head}})["result"]
    assert right["decision"] == "allow"
    assert (wrong["decision"], wrong["reason_codes"]) == ("deny", ["chain_mismatch"])


@covers("sealing")
def test_after_its_end_nothing_is_added_to_a_session(guardian: Guardian, agent: Agent) -> None:
    agent.begin()
    agent.step("steps/sessionStart")
    sealed = agent.step("steps/sessionEnd")["result"]["chain_hash"]
    later = agent.step(TOOL)["result"]
    assert (later["decision"], later["reason_codes"]) == ("deny", ["session_closed"])
    assert "chain_hash" not in later
    found = verify(guardian.store, session_of(guardian.store, agent))
    assert (found.sealed, found.head, found.entries, found.broken) == (True, sealed, 2, None)


@covers("intent")
def test_an_intent_is_fixed_by_the_first_step_that_has_one(guardian: Guardian, agent: Agent) -> None:
    stated = {"raw": "read", "parsed": ["records.read"], "parser_provenance": provenance("p", "user_input")}
    wider = {**stated, "parsed": ["records.read", "records.delete"]}
    agent.begin()
    agent.ask("steps/sessionStart", {"intent": stated})
    first = session_of(guardian.store, agent).intent
    assert agent.ask("steps/agentTrigger", {"trigger_type": "external_event", "intent": wider})["result"]
    assert session_of(guardian.store, agent).intent == first is not None
    *_, last = guardian.store.entries(session_of(guardian.store, agent))
    assert last["findings"] == ["intent_change_ignored"]


@covers("intent")
@pytest.mark.parametrize("origin", ["tool_output", "agent_generated", "retrieved"])
def test_an_intent_that_was_not_parsed_from_a_user_is_refused(agent: Agent, origin: str) -> None:
    agent.begin()
    stated = {"parsed": ["records.delete"], "parser_provenance": provenance("p", origin)}
    assert agent.ask("steps/sessionStart", {"intent": stated})["error"]["code"] == -32602


@covers("request-hash")
@covers("timestamp")
@covers("provenance-summary")
def test_every_entry_under_acs_audit_commits_to_its_request(guardian: Guardian, agent: Agent) -> None:
    assert "acs-audit" in agent.begin(profiles_supported=["acs-core", "acs-audit"])["result"]["profiles_accepted"]
    requests = [agent.request(method, payload) for method, payload in PAYLOADS.items()]
    for request in requests:
        assert "result" in agent.post(request)
    for request, entry in zip(requests, entries(guardian, agent), strict=True):
        assert entry["request_hash"] == request_hash(request["params"])
        assert entry["timestamp"] == request["params"]["timestamp"]
        stated = json.dumps(request["params"]["payload"]).count('"provenance_id"')
        assert entry.get("provenance_summary", {}).get("entry_count", 0) == stated, entry["step_type"]


@covers("request-hash")
def test_two_requests_that_differ_in_one_letter_have_other_hashes(guardian: Guardian, agent: Agent) -> None:
    agent.begin()
    for text in ("records.read", "records.reap"):
        agent.ask("steps/userMessage", {"content": [{"type": "text", "value": text}]})
    first, second = entries(guardian, agent)
    assert first["request_hash"] != second["request_hash"]
