"""The agent's side: what the client sends, whose answer it takes, and what it does with one or without."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from awr.client import GuardianClient
from awr.client.acs.audit import AuditFile, AuditRecord
from awr.client.acs.settings import Settings
from awr.errors import InvalidTransition
from awr.guardian.envelope import milliseconds, read_envelope
from awr.guardian.hooks import HOOKS
from awr.guardian.signature import Keys, verifies
from tests.conformance.agent_measures import TOOL, WAIT_MS, answering, asking, silence
from tests.conformance.process import KEY_ID, Served, served
from tests.conformance.requirements import covers
from tests.support import acs
from tests.support.guardians import SECRET, allow, door, hello, http, signed
from tests.support.service import DEADLINE

CALL = {"tool": {"name": "http.post"}, "arguments": {"key": {"value": "k"}, "url": {"value": "u"}}}
COMPACTION = ("steps/preCompact", "steps/postCompact")
MCP = "protocols/MCP/tools/call"


@pytest.fixture(scope="module")
def guardian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("agent")) as found:
        yield found


@pytest.fixture
def client(guardian: Served) -> Iterator[GuardianClient]:
    """A client of a real Guardian; that it has something to record would be a failure."""

    def unexpected(record: AuditRecord) -> None:
        raise AssertionError(record)

    settings = Settings(agent_id="agent", methods=(*HOOKS, MCP), sequential=True)
    with GuardianClient(guardian.url, settings=settings, secret=acs.SECRET, key_id=KEY_ID, audit=unexpected) as found:
        yield found


def _mark(method: str) -> object:
    return pytest.param(method, marks=covers("compaction-hooks" if method in COMPACTION else "hooks", party="agent"))


@pytest.mark.parametrize("method", [_mark(method) for method in HOOKS])
def test_each_hook_is_asked_about_and_goes_on_when_it_is_allowed(client: GuardianClient, method: str) -> None:
    assert client.start().state == "guarded"
    outcome = client.step(method, acs.PAYLOADS[method])
    assert (outcome.action, outcome.decided_by, outcome.decision) == ("proceed", "guardian", "allow")


@covers("handshake", party="agent")
@covers("chain-head", party="agent")
def test_a_session_with_a_real_guardian_follows_its_chain(client: GuardianClient) -> None:
    started = client.start()
    assert (started.state, started.on_decision_failure) == ("guarded", "proceed")
    assert started.methods_evaluated == (*HOOKS, MCP)
    heads = []
    for method in ("steps/sessionStart", TOOL, TOOL, "steps/sessionEnd"):
        heads.append(client.step(method, acs.PAYLOADS[method]).chain_hash)
        assert client.chain_hash == heads[-1], "each step states the head that was published before it"
    assert len(set(heads)) == 4


@covers("handshake", party="agent")
def test_nothing_is_asked_before_the_handshake_and_no_second_one_is_tried(client: GuardianClient) -> None:
    with pytest.raises(InvalidTransition):
        client.step(TOOL, CALL)
    client.start()
    with pytest.raises(InvalidTransition):
        client.start()


@covers("handshake", party="agent")
def test_a_method_that_the_guardian_does_not_evaluate_goes_on_unasked_and_recorded() -> None:
    with asking(silence, methods_evaluated=["steps/postCompact"]) as (client, records):
        client.start()
        outcome = client.step(TOOL, CALL)
    assert (outcome.action, outcome.decided_by) == ("proceed", "not_evaluated")
    assert [record.event for record in records] == ["method_not_evaluated"]


@covers("wrapped-mcp", party="agent")
def test_a_wrapped_message_is_asked_about(client: GuardianClient) -> None:
    client.start()
    outcome = client.step(MCP, {"params": {"name": "lookup", "arguments": {}}})
    assert (outcome.action, outcome.decided_by) == ("proceed", "guardian")


@covers("liveness", party="agent")
def test_a_ping_finds_a_guardian_that_is_there_and_none_that_is_not(client: GuardianClient) -> None:
    assert client.ping()
    settings = {"handshake_timeout_ms": WAIT_MS}
    with asking(silence, greeting=silence, settings=settings) as (other, records):
        assert not other.ping()
    assert records == []


@covers("envelope", party="agent")
@covers("signature", party="agent")
@covers("replay", party="agent")
@covers("freshness", party="agent")
def test_every_request_is_an_envelope_signed_whole_under_an_id_and_a_time_of_its_own() -> None:
    sent: list[dict[str, Any]] = []

    def note(connection: socket.socket, request: dict[str, Any]) -> None:
        sent.append(request)
        connection.sendall(http(allow(request)))

    def greet(connection: socket.socket, request: dict[str, Any]) -> None:
        sent.append(request)
        connection.sendall(http(hello(request)))

    began = time.time_ns() // 1_000_000
    with asking(note, greeting=greet, settings={"nonce": True}) as (client, _):
        client.start()
        for _ in range(3):
            assert client.step(TOOL, CALL).proceeds
    ended = time.time_ns() // 1_000_000
    envelopes = [read_envelope(request) for request in sent]
    assert [envelope.method for envelope in envelopes] == ["handshake/hello", TOOL, TOOL, TOOL]
    for name in ("request_id", "nonce"):
        assert len({getattr(envelope.params, name) for envelope in envelopes}) == 4
    for envelope, request in zip(envelopes, sent, strict=True):
        assert began <= (milliseconds(envelope.params.timestamp) or 0) <= ended
        assert envelope.session_id == client.session_id
        keys = Keys({"default": SECRET})
        assert verifies(request, place="params", keys=keys, session_id=client.session_id)


@covers("versions", party="agent")
@pytest.mark.parametrize(("version", "state"), [("0.1.3", "guarded"), ("0.2.0", "guarded"), ("1.0.0", "unguarded")])
def test_a_guardian_is_understood_by_its_major(version: str, state: str) -> None:
    with asking(silence, negotiated_version=version) as (client, _):
        assert client.start().state == state


@covers("allow-and-deny", party="agent")
def test_a_denied_step_is_blocked_with_its_reasoning() -> None:
    said = answering(decision="deny", reasoning="no", reason_codes=["rate_limited"])
    with asking(said, on_decision_failure="proceed") as (client, records):
        client.start()
        outcome = client.step(TOOL, CALL)
    assert (outcome.action, outcome.reasoning, outcome.reason_codes) == ("block", "no", ("rate_limited",))
    assert records == []


@covers("modify", party="agent")
@pytest.mark.parametrize(
    ("modifications", "changed"),
    [
        ({"redactions": [{"path": "/arguments/key/value"}]}, {"key": {"value": "[REDACTED]"}, "url": {"value": "u"}}),
        ({"parameter_overrides": {"url": "v"}}, {"key": {"value": "k"}, "url": {"value": "v"}}),
        (
            {"redactions": [{"path": "/arguments/key/value"}], "parameter_overrides": {"url": "v"}},
            {"key": {"value": "[REDACTED]"}, "url": {"value": "v"}},
        ),
    ],
)
def test_a_modification_is_applied_to_what_was_sent(modifications: Any, changed: Any) -> None:
    with asking(answering(decision="modify", reasoning="less", modifications=modifications)) as (client, records):
        client.start()
        outcome = client.step(TOOL, CALL)
    assert (outcome.action, outcome.payload) == ("proceed_modified", {**CALL, "arguments": changed})
    assert records == []


@covers("modify", party="agent")
@pytest.mark.parametrize(
    "modifications",
    [
        {"modified_content": "x", "redactions": [{"path": "/arguments/key"}]},
        {"redactions": [{"path": "/arguments/url"}], "parameter_overrides": {"url": "v"}},
        {"redactions": [{"path": "/arguments/missing"}]},
        {},
    ],
)
def test_a_modification_that_says_two_things_or_nothing_is_a_denial(modifications: Any) -> None:
    with asking(answering(decision="modify", reasoning="less", modifications=modifications)) as (client, records):
        client.start()
        assert client.step(TOOL, CALL).action == "block"
    assert [(record.event, record.received, record.applied) for record in records] == [
        ("substituted", "modify", "deny")
    ]


ASK = {
    "decision": "ask",
    "reasoning": "who knows",
    "ask_details": {"approver": {"type": "human", "id": "u-1"}, "question": "May it?", "timeout_seconds": 60},
}


@covers("ask", party="agent")
def test_a_client_that_can_ask_is_told_whom_and_what_holds_without_an_answer() -> None:
    with asking(answering(**ASK), settings={"ask_capable": True}) as (client, _):
        client.start()
        outcome = client.step(TOOL, CALL)
    assert (outcome.action, outcome.proceeds) == ("ask", False)
    assert outcome.approval is not None
    assert (outcome.approval.question, outcome.approval.then) == ("May it?", "block")
    assert outcome.approval.approver == {"type": "human", "id": "u-1"}


@covers("ask", party="agent")
def test_a_client_that_cannot_ask_blocks_and_records_it() -> None:
    with asking(answering(**ASK)) as (client, records):
        client.start()
        assert client.step(TOOL, CALL).action == "block"
    assert [(record.received, record.applied) for record in records] == [("ask", "deny")]


@covers("defer", party="agent")
def test_a_deferred_step_waits_and_is_blocked_when_the_time_is_over() -> None:
    details = {"reason": "low_confidence", "resolution_method": "timeout", "resolution_timeout_ms": 1000}
    with asking(answering(decision="defer", reasoning="later", defer_details=details)) as (client, _):
        client.start()
        outcome = client.step(TOOL, CALL)
    assert (outcome.action, outcome.proceeds) == ("defer", False)
    assert outcome.deferral is not None
    assert outcome.deferral.then == "block"


@covers("decision-honoring", party="agent")
def test_an_answer_within_the_time_is_waited_for_and_applied() -> None:
    arrived, released = threading.Event(), threading.Event()

    def late(connection: socket.socket, request: dict[str, Any]) -> None:
        arrived.set()
        assert released.wait(DEADLINE)
        connection.sendall(http(allow(request, decision="deny", reasoning="no")))

    with (
        asking(late, wait_ms=20_000, on_decision_failure="proceed") as (client, records),
        ThreadPoolExecutor() as pool,
    ):
        client.start()
        step = pool.submit(client.step, TOOL, CALL)
        assert arrived.wait(DEADLINE)
        assert not step.done(), "it goes on only by the answer"
        released.set()
        assert step.result(DEADLINE).action == "block"
    assert records == []


@covers("decision-honoring", party="agent")
@covers("failure-posture", party="agent")
@pytest.mark.parametrize(("posture", "action"), [("proceed", "proceed"), ("deny", "block")])
def test_without_an_answer_the_posture_holds_and_is_recorded(posture: str, action: str) -> None:
    with asking(silence, wait_ms=WAIT_MS, on_decision_failure=posture) as (client, records):
        client.start()
        outcome = client.step(TOOL, CALL)
    assert (outcome.action, outcome.decided_by, outcome.failure) == (action, "posture", "timeout")
    [record] = records
    assert (record.event, record.failure, record.posture) == ("decision_failure", "timeout", posture)
    assert (record.session_id, record.request_id) == (client.session_id, outcome.request_id)


@covers("errors", party="agent")
@covers("failure-posture", party="agent")
@pytest.mark.parametrize(
    ("code", "action"),
    [
        *((code, "block") for code in (-32700, -32600, -32000, -32004, -32005, -32006)),
        *((code, "proceed") for code in (-32601, -32602, -32603, -32003, -32007)),
    ],
)
def test_an_error_is_no_decision_and_is_recorded_by_its_code(code: int, action: str) -> None:
    def refuse(connection: socket.socket, request: dict[str, Any]) -> None:
        error = {"code": code, "message": "no"}
        connection.sendall(http(signed(request, {"jsonrpc": "2.0", "id": request["id"], "error": error})))

    with asking(refuse, on_decision_failure="proceed") as (client, records):
        client.start()
        outcome = client.step(TOOL, CALL)
    assert (outcome.action, outcome.decision, outcome.error_code) == (action, None, code)
    assert [(record.event, record.error_code) for record in records] == [("decision_failure", code)]


@covers("signature", party="agent")
@pytest.mark.parametrize("kind", ["unsigned", "another secret", "changed"])
def test_an_answer_that_the_guardian_did_not_sign_is_no_decision(kind: str) -> None:
    def forge(connection: socket.socket, request: dict[str, Any]) -> None:
        answer = allow(request, decision="deny" if kind == "changed" else "allow", reasoning="no")
        if kind == "unsigned":
            del answer["result"]["signature"]
        elif kind == "changed":
            answer["result"]["decision"] = "allow"
        else:
            answer["result"]["signature"]["value"] = "A" * 43 + "="
        connection.sendall(http(answer))

    with asking(forge, on_decision_failure="proceed") as (client, records):
        client.start()
        outcome = client.step(TOOL, CALL)
    assert (outcome.action, outcome.decided_by, outcome.failure) == ("block", "fail_closed", "signature")
    assert [record.failure for record in records] == ["signature"]


@covers("replay", party="agent")
def test_a_signed_allow_of_an_earlier_step_decides_no_later_one() -> None:
    answers: list[bytes] = []

    def repeat(connection: socket.socket, request: dict[str, Any]) -> None:
        answers.append(http(allow(request)))
        connection.sendall(answers[0])

    with asking(repeat, on_decision_failure="proceed") as (client, records):
        client.start()
        assert client.step(TOOL, CALL).action == "proceed"
        again = client.step(TOOL, CALL)
    assert (again.action, again.failure) == ("block", "binding")
    assert [record.failure for record in records] == ["binding"]


@covers("chain-head", party="agent")
def test_a_head_that_was_changed_on_its_way_is_not_taken() -> None:
    def change(connection: socket.socket, request: dict[str, Any]) -> None:
        answer = allow(request, chain_hash="a" * 64)
        answer["result"]["chain_hash"] = "b" * 64
        connection.sendall(http(answer))

    with asking(change) as (client, _):
        client.start()
        assert client.step(TOOL, CALL).action == "block"
        assert client.chain_hash is None


@covers("startup-posture", party="agent")
@covers("failure-posture", party="agent")
def test_what_nobody_decided_is_in_a_file_of_the_deployments_own(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    settings = Settings(agent_id="agent", methods=(TOOL,), handshake_timeout_ms=WAIT_MS)
    with (
        door(silence, greeting=silence) as address,
        closing(AuditFile(tmp_path / "audit.jsonl")) as audit,
        GuardianClient(address, settings=settings, secret=SECRET, audit=audit) as client,
    ):
        started = client.start()
        outcome = client.step(TOOL, CALL)
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert (started.state, outcome.decided_by) == ("unguarded", "unguarded")
    assert [line["event"] for line in lines] == ["handshake_failed", "session_unguarded", "step_unguarded"]
    record_property(
        "agent_posture",
        json.dumps(
            {
                "startup": f"`{settings.startup}`, unless the program configures `refuse`",
                "audit": "where the program's audit puts it: with `AuditFile`, a file of the deployment's own",
            }
        ),
    )
