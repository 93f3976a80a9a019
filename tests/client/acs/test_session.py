"""What is sent, what an answer has to be, and what holds when there is none: without a wire."""

from __future__ import annotations

import copy
import json
import uuid
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.client.acs.audit import AuditRecord
from awr.client.acs.exchange import Reply, Request, Settled, Silence
from awr.client.acs.outcome import Outcome, Started
from awr.client.acs.session import ALWAYS_BLOCK, GuardianSession
from awr.client.acs.settings import Settings
from awr.errors import InvalidInput, InvalidTransition
from awr.guardian.envelope import Envelope
from awr.guardian.signature import Keys, sign, verifies
from tests.support.guardians import METHODS, SECRET, allow, hello, signed

NOW = 1_790_000_000_000
TOOL = "steps/toolCallRequest"
PAYLOAD = {
    "tool": {"name": "http.post"},
    "arguments": {"url": {"value": "https://example.org"}, "key": {"value": "the-text-of-the-payload"}},
}
HEAD = "ab" * 32
KEYS = Keys({"default": SECRET})


class Agent:
    """One session, and what was recorded of it."""

    def __init__(self, *, agreed: dict[str, Any] | None = None, **settings: Any) -> None:
        self.session = GuardianSession(
            Settings(agent_id="agent", methods=METHODS, **settings),
            secret=SECRET,
            transports=("http",),
            clock=lambda: NOW,
        )
        self.records: list[AuditRecord] = []
        self.agreed = agreed

    def begin(self, came: Reply | Silence | None = None) -> Started:
        request = self.session.hello()
        answer = came or reply(hello(sent(request), **(self.agreed or {})))
        started, records = self.session.welcomed(request, answer)
        self.records += records
        return started

    def ask(self, method: str = TOOL, payload: Any = PAYLOAD, **more: Any) -> Request:
        request = self.session.ask(method, payload, **more)
        assert isinstance(request, Request)
        return request

    def settle(self, request: Request, came: Reply | Silence) -> Outcome:
        return self.keep(self.session.settle(request, came))

    def keep(self, settled: Settled | Request) -> Outcome:
        assert isinstance(settled, Settled)
        self.records += settled.records
        return settled.outcome

    def decided(self, *, method: str = TOOL, payload: Any = PAYLOAD, **members: Any) -> Outcome:
        request = self.ask(method, payload)
        return self.settle(request, reply(allow(sent(request), **members)))

    def refused(self, code: int, *, sign_it: bool = True) -> Outcome:
        request = self.ask()
        return self.settle(request, reply(error(sent(request), code, sign_it=sign_it)))


def begun(*, posture: str = "proceed", **settings: Any) -> Agent:
    agent = Agent(agreed={"on_decision_failure": posture}, **settings)
    assert agent.begin().state == "guarded"
    return agent


def sent(request: Request) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.body)
    return found


def reply(message: Any, status: int | None = 200) -> Reply:
    return Reply(json.dumps(message).encode(), status)


def error(request: dict[str, Any], code: int, *, sign_it: bool = True) -> dict[str, Any]:
    data = {"reason": "SECRET-REASON", "message": "SECRET-MESSAGE"}
    answer = {"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "SECRET", "data": data}}
    return signed(request, answer) if sign_it else answer


# What is sent


def test_a_request_has_the_envelopes_form_and_its_signature_covers_it() -> None:
    agent = begun(
        nonce=True,
        agent_name="Agent",
        environment="staging",
        platform="host",
        platform_version="1",
    )
    message = sent(agent.ask(turn_id="turn", parent_turn_id="before"))
    envelope = msgspec.convert(message, Envelope)
    assert uuid.UUID(envelope.params.request_id).version == 4
    assert verifies(message, place="params", keys=KEYS, session_id=agent.session.session_id)
    metadata = message["params"]["metadata"]
    assert (metadata["turn_id"], metadata["parent_turn_id"]) == ("turn", "before")
    assert (metadata["agent_name"], metadata["environment"], metadata["platform"]) == ("Agent", "staging", "host")
    assert message["params"]["timestamp"] == "2026-09-21T14:13:20.000Z"
    assert len(message["params"]["nonce"]) == 32


def test_no_two_requests_have_an_id_in_common() -> None:
    agent = begun()
    assert len({sent(agent.ask())["params"]["request_id"] for _ in range(100)}) == 100


def test_a_client_hello_says_what_the_settings_say() -> None:
    agent = Agent(provenance_producer="deterministic", profiles=("acs-core", "acs-audit"))
    payload = sent(agent.session.hello())["params"]["payload"]
    assert payload == {
        "acs_versions_supported": ["0.1.0"],
        "methods_implemented": list(METHODS),
        "transports_supported": ["http"],
        "max_payload_size_bytes": 1_000_000,
        "provenance_producer": "deterministic",
        "profiles_supported": ["acs-core", "acs-audit"],
    }


@pytest.mark.parametrize(
    "payload",
    [
        {"number": 2**53},
        {"number": float("nan")},
        {"number": float("inf")},
        {"number": 1e300},
        {"text": "\ud800"},
        {"object": object()},
        {"text": "x" * 1_048_576},
        {1: "a", "1": "b"},
        {"deep": json.loads("[" * 70 + "]" * 70)},
    ],
    ids=["integer", "nan", "infinity", "huge", "surrogate", "object", "long", "twice", "deep"],
)
def test_a_payload_without_one_form_on_the_wire_is_blocked_whatever_the_posture(payload: Any) -> None:
    agent = begun(posture="proceed")
    outcome = agent.keep(agent.session.ask(TOOL, payload))
    assert (outcome.action, outcome.decided_by, outcome.failure) == ("block", "fail_closed", "unsendable")
    assert [(record.event, record.applied) for record in agent.records] == [("decision_failure", "deny")]


def test_a_step_before_the_handshake_is_the_programs_mistake() -> None:
    agent = Agent()
    with pytest.raises(InvalidTransition):
        agent.session.ask(TOOL, PAYLOAD)
    agent.session.hello()
    with pytest.raises(InvalidTransition):
        agent.session.ask(TOOL, PAYLOAD)


def test_a_second_handshake_is_the_programs_mistake() -> None:
    agent = begun()
    with pytest.raises(InvalidTransition):
        agent.session.hello()


def test_a_method_that_was_not_offered_is_the_programs_mistake() -> None:
    with pytest.raises(InvalidInput):
        begun().session.ask("steps/preCompact", {})


@pytest.mark.parametrize("session_id", ["", "x", "0" * 32, "00000000-0000-4000-8000-000000000000\n"])
def test_a_session_id_that_is_no_uuid_is_refused(session_id: str) -> None:
    with pytest.raises(InvalidInput):
        GuardianSession(
            Settings(agent_id="a", methods=METHODS), secret=SECRET, transports=("http",), session_id=session_id
        )


# The handshake


def test_a_server_hello_in_the_result_begins_a_guarded_session() -> None:
    agent = Agent(agreed={"on_decision_failure": "deny", "profiles_accepted": ["acs-core"]})
    started = agent.begin()
    assert started == Started(
        state="guarded",
        session_id=agent.session.session_id,
        methods_evaluated=METHODS,
        profiles_accepted=("acs-core",),
        on_decision_failure="deny",
    )
    assert agent.records == []


def test_a_server_hello_in_the_payload_of_a_decision_begins_a_guarded_session() -> None:
    agent = Agent()
    request = agent.session.hello()
    inner = hello(sent(request), on_timeout="deny")["result"]
    inner.pop("signature")
    started, _ = agent.session.welcomed(request, reply(allow(sent(request), payload=inner)))
    assert (started.state, started.on_decision_failure) == ("guarded", "deny")


def test_what_a_newer_guardian_adds_is_ignored() -> None:
    agent = Agent(agreed={"of_the_future": {"a": [1.5]}})
    assert agent.begin().state == "guarded"
    assert agent.decided(of_the_future=[1], metadata={"confidence": 0.5}).action == "proceed"


@pytest.mark.parametrize("code", [-32000, -32001, -32002])
@pytest.mark.parametrize("startup", ["proceed", "refuse"])
def test_a_refused_session_does_not_begin_whatever_the_startup_posture(code: int, startup: str) -> None:
    agent = Agent(startup=startup)
    request = agent.session.hello()
    started, records = agent.session.welcomed(request, reply(error(sent(request), code)))
    assert (started.state, started.error_code) == ("refused", code)
    assert [(record.event, record.applied, record.error_code) for record in records] == [
        ("handshake_refused", "refuse", code)
    ]
    outcome = agent.keep(agent.session.ask(TOOL, PAYLOAD))
    assert (outcome.action, outcome.decided_by) == ("block", "session_refused")
    assert [(record.event, record.applied) for record in agent.records] == [("step_refused", "deny")]


def broken_hellos(agent: Agent, request: Request) -> dict[str, Reply | Silence]:
    message = sent(request)
    forged = hello(message)
    forged["result"]["on_decision_failure"] = "proceed"
    return {
        "timeout": Silence("timeout"),
        "transport": Silence("transport"),
        "error": reply(error(message, -32603)),
        "signature": reply(forged),
        "binding": reply(signed(message, {**hello(message), "id": str(uuid.uuid4())})),
        "malformed": reply(hello(message, timeout_config={"default_ms": 0})),
    }


@pytest.mark.parametrize("failure", ["timeout", "transport", "error", "signature", "binding", "malformed"])
def test_a_handshake_without_an_answer_lets_an_unguarded_session_begin_and_records_it(failure: str) -> None:
    agent = Agent()
    request = agent.session.hello()
    started, records = agent.session.welcomed(request, broken_hellos(agent, request)[failure])
    assert (started.state, started.failure) == ("unguarded", failure)
    assert [(record.event, record.failure, record.posture, record.applied) for record in records] == [
        ("handshake_failed", failure, "proceed", "proceed"),
        ("session_unguarded", None, None, "proceed"),
    ]
    outcome = agent.keep(agent.session.ask(TOOL, PAYLOAD))
    assert (outcome.action, outcome.decided_by) == ("proceed", "unguarded")
    assert [record.event for record in agent.records] == ["step_unguarded"]


def test_a_handshake_without_an_answer_begins_nothing_under_the_posture_to_refuse() -> None:
    agent = Agent(startup="refuse")
    assert agent.begin(Silence("timeout")).state == "refused"
    assert [(record.event, record.posture, record.applied) for record in agent.records] == [
        ("handshake_failed", "refuse", "refuse")
    ]
    assert agent.keep(agent.session.ask(TOOL, PAYLOAD)).action == "block"


@pytest.mark.parametrize(
    "members",
    [
        {"negotiated_version": "1.0.0"},
        {"negotiated_version": "new"},
        {"selected_transport": "stdio"},
        {"methods_evaluated": "all"},
        {"timeout_config": None},
        {"on_decision_failure": "maybe"},
    ],
)
def test_a_server_hello_that_breaks_its_form_begins_no_guarded_session(members: dict[str, Any]) -> None:
    agent = Agent(agreed=members)
    started = agent.begin()
    assert (started.state, started.failure) == ("unguarded", "malformed")


def test_a_method_that_the_guardian_does_not_evaluate_is_not_sent_and_proceeds_on_record() -> None:
    agent = Agent(agreed={"methods_evaluated": ["steps/userMessage"], "on_decision_failure": "deny"})
    agent.begin()
    outcome = agent.keep(agent.session.ask(TOOL, PAYLOAD))
    assert (outcome.action, outcome.decided_by, outcome.decision) == ("proceed", "not_evaluated", None)
    assert [(record.event, record.method, record.applied) for record in agent.records] == [
        ("method_not_evaluated", TOOL, "proceed")
    ]


def test_all_wrapped_methods_at_once_can_be_offered_and_agreed_on() -> None:
    session = GuardianSession(
        Settings(agent_id="a", methods=("protocols/MCP/*",)), secret=SECRET, transports=("http",)
    )
    request = session.hello()
    session.welcomed(request, reply(hello(sent(request))))
    assert isinstance(session.ask("protocols/MCP/resources/read", {}), Request)
    with pytest.raises(InvalidInput):
        session.ask(TOOL, PAYLOAD)


def test_the_negotiated_time_of_a_method_goes_before_the_default() -> None:
    agent = Agent(agreed={"timeout_config": {"default_ms": 700, "per_method_ms": {TOOL: 90, "steps/x": 1}}})
    agent.begin()
    assert agent.ask().timeout_ms == 90
    assert agent.ask("steps/userMessage", {"content": []}).timeout_ms == 700


# Decisions


def test_an_allow_proceeds_and_leaves_no_record() -> None:
    agent = begun(posture="deny")
    outcome = agent.decided(chain_hash=HEAD, reason_codes=["fine"])
    assert (outcome.action, outcome.decided_by, outcome.decision) == ("proceed", "guardian", "allow")
    assert (outcome.chain_hash, agent.session.chain_hash, outcome.reason_codes) == (HEAD, HEAD, ("fine",))
    assert outcome.proceeds
    assert agent.records == []


def test_a_deny_blocks_with_its_reason_whatever_the_posture() -> None:
    agent = begun(posture="proceed")
    outcome = agent.decided(decision="deny", reasoning="no", reason_codes=["pii_detected"])
    assert (outcome.action, outcome.decided_by, outcome.reasoning) == ("block", "guardian", "no")
    assert outcome.reason_codes == ("pii_detected",)
    assert not outcome.proceeds
    assert agent.records == []


def test_what_the_guardian_signed_is_given_whole() -> None:
    outcome = begun().decided(policy_data={"aarm": {"distance": 3}}, cited_provenance_ids=["p1"])
    assert outcome.received is not None
    assert (outcome.received["policy_data"], outcome.received["cited_provenance_ids"]) == (
        {"aarm": {"distance": 3}},
        ["p1"],
    )


MALFORMED: dict[str, dict[str, Any]] = {
    "no type": {"type": None},
    "another type": {"type": "partial"},
    "another major": {"acs_version": "1.0.0"},
    "no decision": {"decision": None},
    "another decision": {"decision": "escalate"},
    "another case": {"decision": "ALLOW"},
    "a deny without reasoning": {"decision": "deny"},
    "a modify without reasoning": {"decision": "modify", "modifications": {"modified_content": "x"}},
    "a modify without modifications": {"decision": "modify", "reasoning": "r"},
    "an ask without details": {"decision": "ask", "reasoning": "r"},
    "a defer without details": {"decision": "defer", "reasoning": "r"},
    "a defer without an end": {"decision": "defer", "reasoning": "r", "defer_details": {"reason": "x"}},
    "an empty policy id": {"policy_references": [{"policy_id": ""}]},
    "an empty rule id": {"policy_references": [{"policy_id": "p", "rule_id": ""}]},
    "a short hash": {"chain_hash": "ab"},
    "an uppercase hash": {"chain_hash": "AB" * 32},
    "codes that are no texts": {"reason_codes": [1]},
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize(("posture", "action"), [("proceed", "proceed"), ("deny", "block")])
def test_an_answer_that_breaks_its_form_is_no_decision(name: str, posture: str, action: str) -> None:
    agent = begun(posture=posture)
    outcome = agent.decided(**MALFORMED[name])
    assert (outcome.action, outcome.decided_by, outcome.failure) == (action, "posture", "malformed")
    assert outcome.decision is None
    applied = "proceed" if action == "proceed" else "deny"
    assert [(record.event, record.failure, record.posture, record.applied) for record in agent.records] == [
        ("decision_failure", "malformed", posture, applied)
    ]


def bodies(request: Request) -> dict[str, bytes]:
    answer = allow(sent(request))
    whole = json.dumps(answer).encode()
    assert whole.startswith(b'{"jsonrpc"')
    twice = whole.replace(b'"jsonrpc"', b'"jsonrpc": "2.0", "jsonrpc"', 1)
    return {
        "nothing": b"",
        "a page": b"<html>504 Gateway Time-out</html>",
        "half": whole[:-20],
        "an array": b"[" + whole + b"]",
        "a text": b'"allow"',
        "not UTF-8": b"\xff" + whole,
        "a name twice": twice,
        "too long": b" " * 1_048_577 + whole,
        "both members": json.dumps({**answer, "error": {"code": 1, "message": "m"}}).encode(),
        "no member": json.dumps({"jsonrpc": "2.0", "id": request.request_id}).encode(),
        "a result that is no object": json.dumps({**answer, "result": "allow"}).encode(),
    }


BODIES = list(bodies(Request(request_id="x", method="m", body=begun().ask().body, began=0.0, timeout_ms=1)))


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_no_answer_is_no_decision(name: str) -> None:
    agent = begun()
    request = agent.ask()
    outcome = agent.settle(request, Reply(bodies(request)[name], 200))
    assert (outcome.action, outcome.decided_by, outcome.failure) == ("proceed", "posture", "malformed")


@pytest.mark.parametrize("member", [{"more": 1}, {"jsonrpc": "1.0"}])
def test_an_answer_with_another_top_is_no_decision(member: dict[str, Any]) -> None:
    agent = begun(posture="deny")
    request = agent.ask()
    answer = signed(sent(request), {**allow(sent(request)), **member})
    assert agent.settle(request, reply(answer)).failure == "malformed"


@pytest.mark.parametrize("status", [500, 504, 302])
def test_a_gateways_page_is_a_failure_of_the_transport(status: int) -> None:
    agent = begun()
    outcome = agent.settle(agent.ask(), Reply(b"<html></html>", status))
    assert (outcome.failure, agent.records[0].http_status) == ("transport", status)


@pytest.mark.parametrize("status", [200, 400, 413, 500])
def test_a_signed_decision_holds_under_any_status(status: int) -> None:
    agent = begun()
    request = agent.ask()
    answer = allow(sent(request), decision="deny", reasoning="no")
    assert agent.settle(request, reply(answer, status)).decided_by == "guardian"


# Whose answer it is


def tampered(request: Request, other: Request) -> dict[str, tuple[dict[str, Any], str]]:
    """Answers that say allow, and what is wrong with each."""
    message = sent(request)
    session_id = message["params"]["metadata"]["session_id"]
    answer = allow(message)
    swapped = copy.deepcopy(answer)
    swapped["result"]["signature"] = allow(sent(other))["result"]["signature"]
    unsigned = copy.deepcopy(answer)
    del unsigned["result"]["signature"]
    changed = allow(message, decision="deny", reasoning="no")
    changed["result"]["decision"] = "allow"
    foreign = copy.deepcopy(answer)
    foreign["result"].pop("signature")
    sign(foreign, place="result", keys=Keys({"default": b"z" * 32}), key_id="default", session_id=session_id)
    labelled = signed(message, answer, key_id="another")
    elsewhere = copy.deepcopy(answer)
    elsewhere["result"].pop("signature")
    sign(elsewhere, place="result", keys=KEYS, key_id="default", session_id=str(uuid.uuid4()))
    replayed = allow(sent(other))
    rebound = {**copy.deepcopy(replayed), "id": request.request_id}
    resigned = signed(message, {**copy.deepcopy(replayed), "id": request.request_id})

    def with_id(value: Any) -> dict[str, Any]:
        return signed(message, {**copy.deepcopy(answer), "id": value})

    return {
        "unsigned": (unsigned, "signature"),
        "changed": (changed, "signature"),
        "swapped": (swapped, "signature"),
        "foreign key": (foreign, "signature"),
        "another key id": (labelled, "signature"),
        "another session": (elsewhere, "signature"),
        "captured": (replayed, "binding"),
        "captured and relabelled": (rebound, "signature"),
        "another request_id": (resigned, "binding"),
        "an integer id": (with_id(1), "binding"),
        "a float id": (with_id(1.5), "binding"),
        "no id": (with_id(None), "binding"),
        "another case": (with_id(request.request_id.upper()), "binding"),
    }


@pytest.mark.parametrize(
    "name",
    [
        "unsigned",
        "changed",
        "swapped",
        "foreign key",
        "another key id",
        "another session",
        "captured",
        "captured and relabelled",
        "another request_id",
        "an integer id",
        "a float id",
        "no id",
        "another case",
    ],
)
def test_an_answer_that_is_not_the_guardians_to_this_request_blocks_whatever_the_posture(name: str) -> None:
    agent = begun(posture="proceed")
    request = agent.ask()
    answer, failure = tampered(request, agent.ask())[name]
    outcome = agent.settle(request, reply(answer))
    assert (outcome.action, outcome.decided_by, outcome.failure) == ("block", "fail_closed", failure)
    assert outcome.received is None
    assert [(record.event, record.failure, record.posture, record.applied) for record in agent.records] == [
        ("decision_failure", failure, "proceed", "deny")
    ]


@given(st.data())
def test_no_single_changed_character_of_a_signed_deny_becomes_a_permission_by_the_guardian(
    data: st.DataObject,
) -> None:
    agent = begun(posture="proceed")
    request = agent.ask()
    body = bytearray(json.dumps(allow(sent(request), decision="deny", reasoning="no")).encode())
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] = data.draw(st.integers(0, 255))
    outcome = agent.session.settle(request, Reply(bytes(body), 200)).outcome
    assert not (outcome.decided_by == "guardian" and outcome.proceeds)


# Without a decision


@pytest.mark.parametrize("failure", ["timeout", "transport"])
@pytest.mark.parametrize(("posture", "action"), [("proceed", "proceed"), ("deny", "block")])
def test_silence_is_settled_by_the_negotiated_posture_and_recorded(failure: Any, posture: str, action: str) -> None:
    agent = begun(posture=posture)
    request = agent.ask()
    outcome = agent.settle(request, Silence(failure))
    assert (outcome.action, outcome.decided_by, outcome.failure) == (action, "posture", failure)
    (record,) = agent.records
    assert (record.failure, record.posture, record.request_id, record.timeout_ms) == (
        failure,
        posture,
        request.request_id,
        5_000,
    )


def test_the_posture_is_to_proceed_when_none_was_agreed() -> None:
    agent = Agent()
    agent.begin()
    assert agent.settle(agent.ask(), Silence("timeout")).action == "proceed"


@pytest.mark.parametrize("code", sorted(ALWAYS_BLOCK))
@pytest.mark.parametrize("sign_it", [True, False])
def test_a_refusal_of_the_request_blocks_whatever_the_posture(code: int, sign_it: bool) -> None:
    agent = begun(posture="proceed")
    outcome = agent.refused(code, sign_it=sign_it)
    assert (outcome.action, outcome.decided_by, outcome.error_code) == ("block", "fail_closed", code)
    assert (agent.records[0].failure, agent.records[0].error_code) == ("error", code)


def test_the_codes_that_always_block_are_those_of_the_published_adapters() -> None:
    assert sorted(map(int, ALWAYS_BLOCK)) == [-32700, -32600, -32006, -32005, -32004, -32000]


@pytest.mark.parametrize("code", [-32001, -32002, -32003, -32007, -32601, -32602, -32603, -32020])
@pytest.mark.parametrize(("posture", "action"), [("proceed", "proceed"), ("deny", "block")])
def test_any_other_error_is_settled_by_the_posture(code: int, posture: str, action: str) -> None:
    agent = begun(posture=posture)
    outcome = agent.refused(code)
    assert (outcome.action, outcome.decided_by, outcome.error_code) == (action, "posture", code)


def test_an_error_whose_signature_does_not_hold_blocks() -> None:
    agent = begun(posture="proceed")
    request = agent.ask()
    answer = error(sent(request), -32603)
    answer["error"]["code"] = -32602
    assert agent.settle(request, reply(answer)).failure == "signature"


def test_an_error_to_another_request_blocks_and_one_without_an_id_counts() -> None:
    agent = begun(posture="proceed")
    request, other = agent.ask(), agent.ask()
    assert agent.settle(request, reply(error(sent(other), -32603))).failure == "binding"
    nameless = {**error(sent(request), -32603, sign_it=False), "id": None}
    assert agent.settle(request, reply(nameless)).failure == "error"


@pytest.mark.parametrize(
    "error_member", [{"code": "x", "message": "m"}, {"message": "m"}, {"code": True, "message": ""}]
)
def test_an_error_that_breaks_its_form_is_malformed(error_member: dict[str, Any]) -> None:
    agent = begun(posture="deny")
    request = agent.ask()
    answer = signed(sent(request), {"jsonrpc": "2.0", "id": request.request_id, "error": error_member})
    assert agent.settle(request, reply(answer)).failure == "malformed"


def test_no_word_of_a_payload_or_of_the_guardians_is_recorded() -> None:
    agent = begun(modify_capable=False)
    agent.refused(-32603)
    agent.refused(-32000)
    agent.decided(decision="modify", reasoning="SECRET", reason_codes=["SECRET"], modifications={"SECRET": 1})
    agent.keep(agent.session.ask(TOOL, {**PAYLOAD, "x": 2**60}))
    text = msgspec.json.encode(agent.records).decode()
    assert len(agent.records) == 4
    assert "SECRET" not in text
    assert "the-text-of-the-payload" not in text
    assert "http.post" not in text


# MODIFY, ASK, DEFER


def test_a_modification_gives_the_payload_to_use() -> None:
    agent = begun()
    outcome = agent.decided(
        decision="modify",
        reasoning="r",
        modifications={
            "redactions": [{"path": "/arguments/key/value"}],
            "parameter_overrides": {"url": "https://safe.example"},
        },
    )
    assert (outcome.action, outcome.decided_by) == ("proceed_modified", "guardian")
    assert outcome.payload == {
        "tool": {"name": "http.post"},
        "arguments": {"url": {"value": "https://safe.example"}, "key": {"value": "[REDACTED]"}},
    }
    assert PAYLOAD["arguments"]["key"]["value"] == "the-text-of-the-payload"  # type: ignore[index]
    assert agent.records == []


def test_what_is_modified_is_what_was_sent_and_not_what_the_program_made_of_it_since() -> None:
    agent = begun()
    payload = copy.deepcopy(PAYLOAD)
    request = agent.ask(payload=payload)
    payload["arguments"]["url"]["value"] = "https://evil.example"  # type: ignore[index]
    modifications = {"redactions": [{"path": "/arguments/key/value"}]}
    answer = allow(sent(request), decision="modify", reasoning="r", modifications=modifications)
    outcome = agent.settle(request, reply(answer))
    assert outcome.payload is not None
    assert outcome.payload["arguments"]["url"]["value"] == "https://example.org"


@pytest.mark.parametrize(
    ("modifications", "code"),
    [
        ({"modified_content": "x", "redactions": [{"path": "/arguments/key"}]}, "modify_composition"),
        ({"redactions": [{"path": "/arguments/key"}], "parameter_overrides": {"key": 1}}, "modify_composition"),
        ({}, "modify_composition"),
        ("x", "modify_composition"),
        ({"redactions": [{"replacement": "x"}]}, "modify_composition"),
        ({"redactions": [{"path": "/arguments/absent"}]}, "modify_unsupported"),
        ({"modified_content": "x"}, "modify_unsupported"),
    ],
)
def test_a_modification_that_cannot_be_applied_blocks_and_is_recorded(modifications: Any, code: str) -> None:
    agent = begun(posture="proceed")
    outcome = agent.decided(decision="modify", reasoning="r", modifications=modifications)
    assert (outcome.action, outcome.decided_by, outcome.decision) == ("block", "substitution", "modify")
    assert code in outcome.reason_codes
    assert (outcome.payload, outcome.content) == (None, None)
    (record,) = agent.records
    assert (record.event, record.received, record.applied, record.reason_codes) == (
        "substituted",
        "modify",
        "deny",
        (code,),
    )
    assert record.failure is None


def test_a_client_that_cannot_modify_blocks_and_records_it() -> None:
    agent = begun(modify_capable=False)
    outcome = agent.decided(
        decision="modify", reasoning="r", modifications={"redactions": [{"path": "/arguments/key/value"}]}
    )
    assert (outcome.action, outcome.reason_codes) == ("block", ("modify_unsupported",))
    assert (agent.records[0].applied, agent.records[0].reason_codes) == ("deny", ("modify_unsupported",))


SUMMARY = {"summary": {"value": "the summary", "provenance": {"provenance_id": "p", "origin": "agent_generated"}}}


@pytest.mark.parametrize("capable", [True, False])
def test_a_summary_that_cannot_be_modified_stays_as_it_is_and_that_is_recorded(capable: bool) -> None:
    agent = begun(modify_capable=capable)
    outcome = agent.decided(
        method="steps/postCompact",
        payload=SUMMARY,
        decision="modify",
        reasoning="r",
        modifications={"redactions": [{"path": "/absent"}]},
    )
    assert (outcome.action, outcome.decided_by, outcome.payload) == ("proceed", "substitution", None)
    assert (agent.records[0].applied, agent.records[0].reason_codes) == ("original_kept", ("modify_unsupported",))


def test_a_text_takes_the_place_of_a_summary() -> None:
    outcome = begun().decided(
        method="steps/postCompact",
        payload=SUMMARY,
        decision="modify",
        reasoning="r",
        modifications={"modified_content": "a better one"},
    )
    assert (outcome.action, outcome.content, outcome.payload) == ("proceed_modified", "a better one", None)


ASK: dict[str, Any] = {
    "decision": "ask",
    "reasoning": "r",
    "ask_details": {
        "approver": {"type": "human", "id": "ops"},
        "question": "May it?",
        "timeout_seconds": 30,
        "timeout_disposition": "allow",
        "options": ["yes", "no"],
    },
}


def test_an_ask_is_given_to_a_program_that_has_an_approver() -> None:
    agent = begun(ask_capable=True)
    outcome = agent.decided(**ASK)
    assert (outcome.action, outcome.decided_by) == ("ask", "guardian")
    assert outcome.approval is not None
    assert (outcome.approval.question, outcome.approval.approver["id"]) == ("May it?", "ops")
    assert (outcome.approval.until, outcome.approval.then) == (NOW + 30_000, "proceed")
    assert outcome.approval.details["options"] == ["yes", "no"]
    assert agent.records == []


def test_an_ask_that_nobody_answers_is_a_denial_unless_it_says_otherwise() -> None:
    details = {"approver": {"type": "human", "id": "ops"}, "question": "May it?"}
    outcome = begun(ask_capable=True).decided(decision="ask", reasoning="r", ask_details=details)
    assert outcome.approval is not None
    assert (outcome.approval.until, outcome.approval.then) == (None, "block")


def test_an_ask_blocks_a_program_without_an_approver_and_is_recorded() -> None:
    agent = begun(posture="proceed")
    outcome = agent.decided(**ASK)
    assert (outcome.action, outcome.decided_by, outcome.reason_codes) == (
        "block",
        "substitution",
        ("approver_unavailable",),
    )
    assert (agent.records[0].received, agent.records[0].applied) == ("ask", "deny")


@pytest.mark.parametrize(
    ("decision", "capable", "then"),
    [(None, True, "block"), ("deny", True, "block"), ("ask", True, "ask"), ("ask", False, "block")],
)
def test_a_deferral_says_when_it_ends_and_what_holds_then(decision: str | None, capable: bool, then: str) -> None:
    details = {
        "reason": "pending_dependency",
        "resolution_method": "timeout",
        "resolution_timeout_ms": 1_500,
        "required_context": ["intent"],
        **({"timeout_decision": decision} if decision else {}),
    }
    agent = begun(posture="proceed", ask_capable=capable)
    outcome = agent.decided(decision="defer", reasoning="r", defer_details=details)
    assert outcome.action == "defer"
    assert outcome.deferral is not None
    assert (outcome.deferral.until, outcome.deferral.then) == (NOW + 1_500, then)
    assert (outcome.deferral.reason, outcome.deferral.resolution_method) == ("pending_dependency", "timeout")
    assert outcome.deferral.required_context == ("intent",)


# The head of the chain


def believed(request: Request) -> str | None:
    state: dict[str, str] = sent(request)["params"]["metadata"].get("session_state", {})
    return state.get("chain_hash")


def test_sequential_steps_state_the_head_that_was_published_last() -> None:
    agent = begun(sequential=True)
    first = agent.ask()
    assert believed(first) is None
    agent.settle(first, reply(allow(sent(first), chain_hash=HEAD)))
    second = agent.ask()
    assert believed(second) == HEAD
    agent.settle(second, reply(allow(sent(second))))
    assert believed(agent.ask()) == HEAD


def test_a_head_that_may_have_moved_is_not_stated() -> None:
    agent = begun(sequential=True)
    agent.decided(chain_hash=HEAD)
    agent.settle(agent.ask(), Silence("timeout"))
    assert agent.session.chain_hash is None
    assert believed(agent.ask()) is None


def test_steps_that_may_overtake_each_other_state_no_head() -> None:
    agent = begun()
    agent.decided(chain_hash=HEAD)
    assert agent.session.chain_hash == HEAD
    assert believed(agent.ask()) is None


# Liveness


def test_a_pong_needs_no_signature_and_has_to_be_the_answer() -> None:
    agent = begun()
    request = agent.session.ping()
    answer = allow(sent(request), payload={"status": "ok"})
    del answer["result"]["signature"]
    assert agent.session.ponged(request, reply(answer))
    assert not agent.session.ponged(agent.session.ping(), reply(answer))
    assert not agent.session.ponged(request, Silence("timeout"))
    assert not agent.session.ponged(request, Reply(b"<html>"))
    assert not agent.session.ponged(request, reply(error(sent(request), -32603)))
    assert agent.records == []
