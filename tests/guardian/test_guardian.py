"""One request in, one answer out: what is checked, in which order, and what is left on record."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from awr.guardian.envelope import rfc3339
from awr.guardian.guardian import Guardian, Notice
from awr.guardian.hooks import HOOKS
from awr.guardian.reading import MAX_ITEMS
from awr.guardian.signature import Keys
from awr.guardian.store import Session, Store
from awr.guardian.verdict import DEFERRALS, DeferDetails, Step, Verdict
from awr.guardian.verification import verify
from tests.support.acs import PAYLOADS, TEXT, Agent, guardian_at, hello

NOW = 1_790_000_000_000
TOOL = "steps/toolCallRequest"


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


class Saying:
    """A policy that says what the test wants, or fails."""

    name = "saying"
    requires_provenance = False

    def __init__(self, verdict: Verdict | Exception) -> None:
        self.verdict = verdict
        self.asked: list[Step] = []

    def decide(self, step: Step) -> Verdict:
        self.asked.append(step)
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guardian(tmp_path: Path, clock: Clock) -> Iterator[Guardian]:
    made = guardian_at(tmp_path / "acs.db", clock=clock)
    yield made
    made.store.close()


@pytest.fixture
def agent(guardian: Guardian, clock: Clock) -> Agent:
    return Agent(guardian.answer, clock=clock)


def session_of(guardian: Guardian, agent: Agent) -> Session:
    found = guardian.store.session(agent.session_id)
    assert found is not None
    return found


def code(answer: Any) -> tuple[int, str]:
    return answer["error"]["code"], answer["error"]["data"]["reason"]


def test_a_server_hello_stands_directly_in_the_result(agent: Agent) -> None:
    answer = agent.begin()
    assert {"negotiated_version", "methods_evaluated", "selected_transport", "timeout_config"} <= set(
        answer["result"]
    )
    assert not {"type", "decision", "chain_hash"} & set(answer["result"])
    assert answer["result"]["methods_evaluated"] == [*HOOKS, "system/ping", "protocols/MCP/tools/call"]
    assert answer["result"]["skew_window_ms"] == 300_000
    assert answer["result"]["profiles_accepted"] == ["acs-core", "acs-audit"]


@pytest.mark.parametrize("method", HOOKS)
def test_each_of_the_hooks_is_answered_and_chained(guardian: Guardian, agent: Agent, method: str) -> None:
    agent.begin()
    result = agent.step(method)["result"]
    assert (result["type"], result["decision"], result["acs_version"]) == ("final", "allow", "0.1.0")
    session = session_of(guardian, agent)
    assert session.head is not None
    assert result["chain_hash"] == session.head.hex()
    assert session.entries == 1
    assert verify(guardian.store, session).broken is None


def test_the_answer_is_bound_to_the_request(agent: Agent) -> None:
    agent.begin()
    request = agent.request(TOOL, PAYLOADS[TOOL])
    request = agent.signed({**request, "id": 7})
    answer = agent.post(request)
    assert answer["id"] == 7
    assert answer["result"]["request_id"] == request["params"]["request_id"]


def test_all_numbers_of_an_answer_are_integers(agent: Agent) -> None:
    def numbers(value: Any) -> Iterator[Any]:
        if isinstance(value, dict | list):
            for part in value.values() if isinstance(value, dict) else value:
                yield from numbers(part)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield value

    for answer in (agent.begin(), agent.step(TOOL), agent.step("steps/sessionEnd")):
        found = list(numbers(answer))
        assert found
        assert {type(number) for number in found} == {int}


def test_a_step_before_the_handshake_is_not_negotiated(agent: Agent) -> None:
    answer = agent.step(TOOL)
    assert code(answer) == (-32003, "no_session")
    assert answer["error"]["data"]["method"] == TOOL


def test_a_second_handshake_is_refused_and_the_session_goes_on(agent: Agent) -> None:
    agent.begin()
    assert code(agent.begin()) == (-32000, "renegotiation_not_supported")
    assert agent.step(TOOL)["result"]["decision"] == "allow"


def test_a_refused_handshake_begins_nothing_and_uses_its_id_up(guardian: Guardian, agent: Agent) -> None:
    request = agent.request("handshake/hello", hello(transports_supported=["stdio"]))
    assert code(agent.post(request)) == (-32000, "no_common_transport")
    assert code(agent.post(request)) == (-32005, "replay_detected")
    assert guardian.store.session(agent.session_id) is None
    assert "negotiated_version" in agent.begin()["result"]


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"acs_versions_supported": ["1.0.0"]}, (-32001, "unsupported_version")),
        # The order in which several reasons are looked at: version, transport.
        ({"acs_versions_supported": ["1.0.0"], "transports_supported": ["stdio"]}, (-32001, "unsupported_version")),
        ({"acs_versions_supported": []}, (-32602, "invalid_payload")),
        ({"transports_supported": ["carrier pigeon"]}, (-32602, "invalid_payload")),
        ({"provenance_producer": "llm"}, (-32602, "invalid_payload")),
        ({"methods_implemented": ["nonsense"]}, (-32602, "invalid_payload")),
    ],
)
def test_a_handshake_that_cannot_be_agreed_on_says_why(
    agent: Agent, changes: dict[str, Any], refusal: tuple[int, str]
) -> None:
    answer = agent.begin(**changes)
    assert code(answer) == refusal
    if refusal[0] == -32001:
        assert answer["error"]["data"]["supported_versions"] == ["0.1.0"]


def test_a_later_version_of_the_same_major_is_understood(agent: Agent) -> None:
    assert agent.begin(acs_versions_supported=["0.9.0"], future="ignored")["result"]["negotiated_version"] == "0.1.0"
    request = agent.request(TOOL, {**PAYLOADS[TOOL], "future": 1}, acs_version="0.1.7", future={"a": 1})
    assert agent.post(request)["result"]["decision"] == "allow"


def test_a_step_of_another_major_version_is_refused(agent: Agent) -> None:
    agent.begin()
    assert code(agent.step(TOOL, acs_version="1.0.0")) == (-32001, "unsupported_version")


def test_a_policy_that_needs_provenance_refuses_a_producer_of_none(tmp_path: Path) -> None:
    policy = Saying(Verdict(decision="allow"))
    policy.requires_provenance = True
    agent = Agent(guardian_at(tmp_path / "acs.db", policy=policy).answer)
    assert code(agent.begin(provenance_producer="none")) == (-32002, "provenance_required")
    assert agent.begin(provenance_producer="deterministic")["result"]["policy_requires_provenance"] is True


def test_an_unsigned_step_is_refused_unsigned(agent: Agent) -> None:
    agent.begin()
    answer = agent.post(agent.unsigned(TOOL, PAYLOADS[TOOL]))
    assert code(answer) == (-32004, "signature_missing")
    assert "signature" not in answer["error"]


def test_a_refused_signature_uses_no_id_up(agent: Agent) -> None:
    agent.begin()
    request = agent.request(TOOL, PAYLOADS[TOOL])
    forged = json.loads(json.dumps(request))
    forged["params"]["payload"]["raw_command"] = "something else"
    assert code(agent.post(forged)) == (-32004, "signature_mismatch")
    assert agent.post(request)["result"]["decision"] == "allow"


@pytest.mark.parametrize("again", ["same bytes", "upper case", "new time"])
def test_a_repeated_request_id_is_a_replay(agent: Agent, clock: Clock, again: str) -> None:
    agent.begin()
    request = agent.request(TOOL, PAYLOADS[TOOL])
    assert agent.post(request)["result"]["decision"] == "allow"
    params = {name: value for name, value in request["params"].items() if name != "signature"}
    if again == "upper case":
        request = agent.signed({**request, "params": {**params, "request_id": params["request_id"].upper()}})
    if again == "new time":
        clock.now += 200_000
        request = agent.signed({**request, "params": {**params, "timestamp": rfc3339(clock.now)}})
    answer = agent.post(request)
    assert code(answer) == (-32005, "replay_detected")
    assert agent.is_signed(answer)


def test_a_repeated_nonce_is_a_replay_in_its_session_only(guardian: Guardian, agent: Agent, clock: Clock) -> None:
    other = Agent(guardian.answer, clock=clock)
    agent.begin()
    other.begin()
    nonce = "0123456789abcdef"
    assert agent.step(TOOL, nonce=nonce)["result"]["decision"] == "allow"
    assert code(agent.step(TOOL, nonce=nonce)) == (-32005, "replay_detected")
    assert other.step(TOOL, nonce=nonce)["result"]["decision"] == "allow"


@pytest.mark.parametrize(
    ("method", "parts", "refusal"),
    [
        ("steps/userMessage", {}, (-32003, "not_negotiated")),
        (TOOL, {"timestamp": rfc3339(NOW - 300_001)}, (-32006, "timestamp_out_of_window")),
        (TOOL, {"timestamp": rfc3339(NOW + 300_001)}, (-32006, "timestamp_out_of_window")),
        (TOOL, {"timestamp": "2026-02-30T10:00:00Z"}, (-32006, "timestamp_out_of_window")),
        (TOOL, {"payload": {"tool": {"name": "Bash"}}}, (-32602, "invalid_payload")),
    ],
)
def test_whatever_a_request_is_refused_for_its_id_is_used_up(
    guardian: Guardian, agent: Agent, method: str, parts: dict[str, Any], refusal: tuple[int, str]
) -> None:
    agent.begin(methods_implemented=[TOOL])
    payload = parts.pop("payload", PAYLOADS[method])
    request = agent.request(method, payload, **parts)
    first, second = agent.post(request), agent.post(request)
    assert code(first) == refusal
    assert code(second) == (-32005, "replay_detected")
    assert agent.is_signed(first)
    assert agent.is_signed(second)
    assert session_of(guardian, agent).entries == 0
    if refusal[0] == -32006:
        assert first["error"]["data"]["skew_window_ms"] == 300_000


@pytest.mark.parametrize("off", [-300_000, 300_000])
def test_a_time_at_the_edge_of_the_window_is_accepted(agent: Agent, off: int) -> None:
    agent.begin()
    assert agent.step(TOOL, timestamp=rfc3339(NOW + off))["result"]["decision"] == "allow"


@pytest.mark.parametrize("jump", [-3_600_000, 3_600_000])
def test_a_guardian_whose_clock_jumps_refuses_and_still_knows_what_it_has_seen(
    agent: Agent, clock: Clock, guardian: Guardian, jump: int
) -> None:
    agent.begin()
    request = agent.request(TOOL, PAYLOADS[TOOL])
    assert agent.post(request)["result"]["decision"] == "allow"
    sender = Agent(guardian.answer, session_id=agent.session_id, clock=lambda: NOW)
    clock.now += jump
    assert code(sender.step(TOOL)) == (-32006, "timestamp_out_of_window")
    assert code(agent.post(request)) == (-32005, "replay_detected")
    clock.now -= jump
    assert sender.step(TOOL)["result"]["decision"] == "allow"


def test_a_method_that_the_standard_does_not_define_is_not_found(agent: Agent) -> None:
    agent.begin()
    assert code(agent.ask("steps/dance", {})) == (-32601, "method_not_found")
    assert code(agent.ask("system/renegotiate", {})) == (-32601, "method_not_found")


@pytest.mark.parametrize("method", ["agbom/snapshot", "agbom/changed", "protocols/A2A/message", "trace/emit"])
def test_a_method_that_is_defined_and_not_offered_is_not_negotiated(agent: Agent, method: str) -> None:
    assert method not in agent.begin(methods_implemented=[method, TOOL])["result"]["methods_evaluated"]
    answer = agent.ask(method, {})
    assert code(answer) == (-32003, "not_negotiated")
    assert answer["error"]["data"]["method"] == method


@pytest.mark.parametrize("spelled", ["protocols/MCP/tools/call", "protocols/MCP/*"])
def test_wrapped_messages_of_mcp_are_evaluated_when_they_were_offered(agent: Agent, spelled: str) -> None:
    agent.begin(methods_implemented=[spelled])
    answer = agent.ask("protocols/MCP/tools/call", {"params": {"name": "read"}})
    assert answer["result"]["decision"] == "allow"
    assert len(answer["result"]["chain_hash"]) == 64


def test_a_step_under_another_key_than_the_handshakes_is_denied(tmp_path: Path) -> None:
    keys = Keys({"new": b"n" * 32, "old": b"o" * 32})
    guardian = guardian_at(tmp_path / "acs.db", keys=keys)
    agent = Agent(guardian.answer, keys=keys, key_id="old")
    agent.begin()
    stranger = Agent(guardian.answer, keys=keys, key_id="new", session_id=agent.session_id)
    result = stranger.step(TOOL)["result"]
    assert (result["decision"], result["reason_codes"]) == ("deny", ["key_not_bound"])
    assert "chain_hash" not in result
    assert agent.step(TOOL)["result"]["decision"] == "allow"


def test_a_step_of_another_agent_is_denied(guardian: Guardian, agent: Agent, clock: Clock) -> None:
    agent.begin()
    stranger = Agent(guardian.answer, session_id=agent.session_id, agent_id="somebody else", clock=clock)
    assert stranger.step(TOOL)["result"]["reason_codes"] == ["agent_id_not_bound"]
    # Nothing can be denied at this hook, so there is no decision at all.
    assert code(stranger.step("steps/turnEnd")) == (-32000, "agent_id_not_bound")


def test_after_its_end_a_session_is_closed_and_its_chain_stays(guardian: Guardian, agent: Agent) -> None:
    agent.begin()
    agent.step(TOOL)
    head = agent.step("steps/sessionEnd")["result"]["chain_hash"]
    result = agent.step(TOOL)["result"]
    assert (result["decision"], result["reason_codes"]) == ("deny", ["session_closed"])
    assert "chain_hash" not in result
    assert code(agent.step("steps/sessionEnd")) == (-32000, "session_closed")
    session = session_of(guardian, agent)
    assert (session.entries, session.head) == (2, bytes.fromhex(head))
    assert session.sealed_at == NOW


def test_the_clients_view_of_the_head_is_checked_and_a_denied_step_is_chained(
    guardian: Guardian, agent: Agent
) -> None:
    agent.begin()
    head = agent.step(TOOL)["result"]["chain_hash"]
    agreed = agent.step(TOOL, metadata={"session_state": {"chain_hash": head}})["result"]
    assert agreed["decision"] == "allow"
    denied = agent.step(TOOL, metadata={"session_state": {"chain_hash": head}})["result"]
    assert (denied["decision"], denied["reason_codes"]) == ("deny", ["chain_mismatch"])
    assert denied["chain_hash"] not in {head, agreed["chain_hash"]}
    session = session_of(guardian, agent)
    assert [row["decision"] for row in guardian.store.entries(session)] == ["allow", "allow", "deny"]


def test_where_nothing_can_be_denied_a_wrong_view_of_the_head_is_said(agent: Agent) -> None:
    agent.begin()
    result = agent.step("steps/turnEnd", metadata={"session_state": {"chain_hash": "0" * 64}})["result"]
    assert (result["decision"], result["reason_codes"]) == ("allow", ["chain_mismatch"])


@pytest.mark.parametrize("method", HOOKS)
def test_a_policy_that_fails_approves_of_nothing(tmp_path: Path, method: str) -> None:
    guardian = guardian_at(tmp_path / "acs.db", policy=Saying(ZeroDivisionError(TEXT)))
    agent = Agent(guardian.answer)
    agent.begin()
    result = agent.step(method)["result"]
    assert result["decision"] == ("deny" if "deny" in HOOKS[method].permits else "allow")
    # The example of a finished fold binds no step that the session has, which is said as well.
    more = ["lineage_mismatch"] if method == "steps/postCompact" else []
    assert result["reason_codes"] == ["evaluation_failed", *more]
    assert TEXT not in json.dumps(result)
    assert "chain_hash" in result, "what was asked is on record whatever came of it"


def test_deferrals_of_a_session_are_bounded(tmp_path: Path) -> None:
    details = DeferDetails(reason="low_confidence", resolution_method="timeout", resolution_timeout_ms=1000)
    policy = Saying(Verdict(decision="defer", reasoning="not sure", defer_details=details))
    agent = Agent(guardian_at(tmp_path / "acs.db", policy=policy).answer)
    agent.begin()
    decisions = [agent.step(TOOL)["result"] for _ in range(DEFERRALS + 1)]
    assert [result["decision"] for result in decisions] == ["defer"] * DEFERRALS + ["deny"]
    assert decisions[0]["defer_details"]["timeout_decision"] == "deny"
    assert decisions[-1]["reason_codes"] == ["deferral_bound_exceeded"]


def test_a_policy_is_told_whose_step_it_is(tmp_path: Path) -> None:
    policy = Saying(Verdict(decision="allow"))
    agent = Agent(guardian_at(tmp_path / "acs.db", policy=policy).answer)
    agent.begin()
    agent.step("steps/sessionStart")
    request = agent.request(TOOL, PAYLOADS[TOOL], metadata={"turn_id": "turn-1"})
    agent.post(request)
    step = policy.asked[-1]
    assert (step.session_id, step.agent_id, step.method, step.turn_id) == (
        agent.session_id,
        agent.agent_id,
        TOOL,
        "turn-1",
    )
    assert (step.step_id, step.session.entries) == (request["params"]["request_id"], 1)


def test_a_ping_is_answered_without_a_signature_and_chained_nowhere(guardian: Guardian, agent: Agent) -> None:
    unsigned = agent.post(agent.unsigned("system/ping", {"echo": "are you there?"}))
    assert unsigned["result"]["decision"] == "allow"
    assert unsigned["result"]["payload"] == {
        "status": "ok",
        "echo": "are you there?",
        "server_timestamp": rfc3339(NOW),
    }
    assert "signature" not in unsigned["result"]
    assert "chain_hash" not in unsigned["result"]
    agent.begin()
    assert agent.ask("system/ping", {})["result"]["payload"]["status"] == "ok"
    assert session_of(guardian, agent).entries == 0


@pytest.mark.parametrize("parts", [{"acs_version": "9.0.0"}, {"timestamp": "1999-01-01T00:00:00Z"}, {}])
def test_a_ping_gets_no_error_of_the_standards_own(agent: Agent, parts: dict[str, Any]) -> None:
    forged = agent.request("system/ping", {}, **parts)
    forged["params"]["signature"]["value"] = "AAAA"
    for _ in range(2):
        answer = agent.post(forged)
        assert answer["result"]["decision"] == "allow"
        assert "signature" not in answer["result"], "a signature that does not hold is not answered by one"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda message: message | {"jsonrpc": "1.0"}, None),
        (lambda message: message | {"extra": 1}, None),
        (lambda message: {name: message[name] for name in ("jsonrpc", "method", "params")}, None),
        (lambda message: message | {"id": None}, None),
        (lambda message: message | {"id": True}, None),
        (lambda message: message | {"id": "x" * 257}, None),
        (lambda message: message | {"method": "hooks/toolCallRequest"}, None),
        (lambda message: message | {"params": []}, None),
        (lambda message: message | {"params": message["params"] | {"request_id": "not a uuid"}}, "request_id"),
        (
            lambda message: message | {"params": message["params"] | {"request_id": f"{uuid.UUID(int=1)}\n"}},
            "request_id",
        ),
        (lambda message: message | {"params": message["params"] | {"timestamp": "yesterday"}}, "timestamp"),
        (lambda message: message | {"params": message["params"] | {"timestamp": "2026-W01-1"}}, "timestamp"),
        (lambda message: message | {"params": message["params"] | {"nonce": "short"}}, "nonce"),
        (lambda message: message | {"params": message["params"] | {"payload": None}}, "payload"),
        (lambda message: message | {"params": message["params"] | {"metadata": {"agent_id": TEXT}}}, "metadata"),
        (lambda _: 7, None),
        (lambda _: None, None),
        (lambda _: [], None),
        (lambda _: TEXT, None),
    ],
)
def test_what_is_no_envelope_is_refused_unsigned_and_not_repeated(
    agent: Agent, change: Any, where: str | None
) -> None:
    agent.begin()
    message = change(agent.request(TOOL, PAYLOADS[TOOL]))
    answer = agent.post(message)
    assert code(answer) == (-32600, "invalid_envelope")
    assert "signature" not in answer["error"]
    assert TEXT not in json.dumps(answer)
    if where is not None:
        assert where in answer["error"]["data"]["message"]


def test_the_id_of_a_broken_request_is_given_back_when_it_is_one(agent: Agent) -> None:
    assert agent.post({"jsonrpc": "1.0", "id": "mine"})["id"] == "mine"
    assert agent.post({"jsonrpc": "1.0", "id": {"a": 1}})["id"] is None


def test_a_wrong_member_of_an_enumeration_is_never_repeated(agent: Agent) -> None:
    agent.begin()
    answer = agent.ask("steps/preCompact", {"entries_to_compact": ["a"], "triggered_by": f"{TEXT} - at `x`"})
    assert code(answer) == (-32602, "invalid_payload")
    assert TEXT not in json.dumps(answer)
    assert "triggered_by" in answer["error"]["data"]["message"]


def test_a_batch_is_answered_item_by_item_in_order(agent: Agent) -> None:
    first, second = agent.request(TOOL, PAYLOADS[TOOL]), agent.request("steps/sessionStart", {})
    answers = agent.post([agent.request("handshake/hello", hello()), first, first, 7, second])
    assert "negotiated_version" in answers[0]["result"]
    assert answers[1]["result"]["request_id"] == first["params"]["request_id"]
    assert code(answers[2]) == (-32005, "replay_detected")
    assert code(answers[3]) == (-32600, "invalid_envelope")
    assert answers[4]["result"]["decision"] == "allow"


def test_a_batch_of_more_items_than_are_answered_is_refused_whole(guardian: Guardian, agent: Agent) -> None:
    agent.begin()
    steps = [agent.request("steps/sessionStart", {}) for _ in range(MAX_ITEMS + 1)]
    refused = agent.post(steps)
    assert code(refused) == (-32600, "batch_too_large")
    assert refused["id"] is None
    assert session_of(guardian, agent).entries == 0
    answers = agent.post(steps[1:])
    assert [answer["result"]["decision"] for answer in answers] == ["allow"] * MAX_ITEMS


def together(guardian: Guardian, *messages: Any) -> list[Any]:
    bodies = [json.dumps(message).encode() for message in messages]
    return list(map(json.loads, guardian.answer_together(bodies)))


def test_requests_that_are_there_together_are_answered_as_if_one_came_after_the_other(
    guardian: Guardian, agent: Agent, clock: Clock
) -> None:
    other = Agent(guardian.answer, clock=clock)
    first = agent.request(TOOL, PAYLOADS[TOOL])
    answers = together(
        guardian,
        agent.request("handshake/hello", hello()),
        first,
        other.request(TOOL, PAYLOADS[TOOL]),
        first,
        agent.request(TOOL, {"tool": {}}),
        agent.unsigned("system/ping", {}),
        [agent.request("steps/turnEnd", PAYLOADS["steps/turnEnd"]), 7],
        agent.request("steps/sessionEnd", PAYLOADS["steps/sessionEnd"]),
        agent.request(TOOL, PAYLOADS[TOOL]),
    )
    assert "negotiated_version" in answers[0]["result"]
    assert answers[1]["result"]["decision"] == "allow"
    assert [code(answer) for answer in answers[2:5]] == [
        (-32003, "no_session"),
        (-32005, "replay_detected"),
        (-32602, "invalid_payload"),
    ]
    assert answers[5]["result"]["payload"]["status"] == "ok"
    assert answers[6][0]["result"]["decision"] == "allow"
    assert answers[7]["result"]["decision"] == "allow"
    assert answers[8]["result"]["reason_codes"] == ["session_closed"]
    session = session_of(guardian, agent)
    published = [answer["result"]["chain_hash"] for answer in (answers[1], answers[6][0], answers[7])]
    assert verify(guardian.store, session, witnessed=tuple(published)).broken is None
    assert session.entries == 3


def test_requests_that_are_there_together_share_one_commit(guardian: Guardian, agent: Agent) -> None:
    agent.begin()
    requests = [agent.request(TOOL, PAYLOADS[TOOL]) for _ in range(20)]
    watcher = Store.read(guardian.store.database.path)
    seen = {watcher.database.rows("PRAGMA data_version")[0][0]}
    decide = guardian._decision._policy.decide

    def deciding(step: Step) -> Verdict:
        seen.add(watcher.database.rows("PRAGMA data_version")[0][0])
        return decide(step)

    guardian._decision._policy.decide = deciding  # type: ignore[method-assign]
    together(guardian, *requests)
    assert len(seen) == 1, "nothing is committed while the group is answered"
    assert watcher.database.rows("PRAGMA data_version")[0][0] not in seen
    watcher.close()


def test_a_fault_in_one_of_several_requests_undoes_that_one_only(
    guardian: Guardian, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.begin()
    append = guardian.store.append
    calls = iter(range(3))

    def failing(*args: Any, **named: Any) -> bytes:
        if next(calls) == 1:
            raise LookupError(TEXT)
        return append(*args, **named)

    monkeypatch.setattr(guardian.store, "append", failing)
    requests = [agent.request(TOOL, PAYLOADS[TOOL]) for _ in range(3)]
    decisions = [answer["result"]["decision"] for answer in together(guardian, *requests)]
    assert decisions == ["allow", "deny", "allow"]
    monkeypatch.undo()
    assert session_of(guardian, agent).entries == 2
    assert agent.post(requests[1])["result"]["decision"] == "allow", "it left nothing, not even its id"


def test_when_the_shared_commit_fails_each_request_gets_a_turn_of_its_own(tmp_path: Path) -> None:
    notices: list[Notice] = []
    guardian = guardian_at(tmp_path / "acs.db", notice=notices.append)
    agent = Agent(guardian.answer)
    agent.begin()
    notices.clear()
    database = guardian.store.database
    requests = [agent.request(TOOL, PAYLOADS[TOOL]) for _ in range(60)]
    pages = database.rows("PRAGMA page_count")[0][0]
    database.execute(f"PRAGMA max_page_count = {pages}")
    answers = [answer["result"] for answer in together(guardian, *requests)]
    database.execute("PRAGMA max_page_count = 1000000")
    allowed = [result for result in answers if result["decision"] == "allow"]
    denied = [result for result in answers if result["decision"] == "deny"]
    assert allowed
    assert denied
    assert {tuple(result["reason_codes"]) for result in denied} == {("store_full",)}
    session = session_of(guardian, agent)
    published = tuple(result["chain_hash"] for result in allowed)
    assert verify(guardian.store, session, witnessed=published).broken is None
    assert session.entries == len(allowed)
    assert len(notices) == 60, "what was undone is not told of"


def test_an_intent_is_fixed_by_the_first_step_that_has_one(guardian: Guardian, agent: Agent) -> None:
    agent.begin()
    agent.step("steps/sessionStart")
    fixed = session_of(guardian, agent).intent
    changed = {**PAYLOADS["steps/agentTrigger"]["intent"], "parsed": ["everything"]}
    agent.ask("steps/agentTrigger", {"trigger_type": "system", "intent": changed})
    session = session_of(guardian, agent)
    assert session.intent == fixed
    assert [row["findings"] for row in guardian.store.entries(session)] == [[], ["intent_change_ignored"]]


@pytest.mark.parametrize("reference", ["of this session", "of another session", "of another kind", "of nothing"])
def test_a_result_that_refers_to_no_call_of_its_session_is_found(
    guardian: Guardian, agent: Agent, clock: Clock, reference: str
) -> None:
    other = Agent(guardian.answer, clock=clock)
    for each in (agent, other):
        each.begin()
    calls = {
        "of this session": agent.step(TOOL)["result"]["request_id"],
        "of another session": other.step(TOOL)["result"]["request_id"],
        "of another kind": agent.step("steps/userMessage")["result"]["request_id"],
        "of nothing": str(uuid.uuid4()),
    }
    payload = {**PAYLOADS["steps/toolCallResult"], "request_id_ref": calls[reference]}
    assert agent.ask("steps/toolCallResult", payload)["result"]["decision"] == "allow"
    *_, last = guardian.store.entries(session_of(guardian, agent))
    assert last["findings"] == ([] if reference == "of this session" else ["request_id_ref_unresolved"])


def test_a_subagents_session_has_a_chain_of_its_own_and_a_parent(
    guardian: Guardian, agent: Agent, clock: Clock
) -> None:
    child = Agent(guardian.answer, clock=clock)
    agent.begin()
    start = {
        **PAYLOADS["steps/subagentStart"],
        "subagent_session_id": child.session_id,
        "parent_session_id": agent.session_id,
    }
    agent.ask("steps/subagentStart", start)
    child.begin()
    child.step(TOOL)
    head = child.step("steps/sessionEnd")["result"]["chain_hash"]
    stop = {"subagent_session_id": child.session_id, "outcome": "completed"}
    agent.ask("steps/subagentStop", {**stop, "final_chain_hash": head})
    agent.ask("steps/subagentStop", {**stop, "final_chain_hash": "0" * 64})
    agent.ask("steps/subagentStop", stop)
    assert guardian.store.parent_of(child.session_id) == agent.session_id
    assert guardian.store.children_of(session_of(guardian, agent)) == [child.session_id]
    findings = [row["findings"] for row in guardian.store.entries(session_of(guardian, agent))]
    assert findings == [[], [], ["final_chain_hash_differs"], []]
    assert session_of(guardian, child).entries == 2


def test_a_subagent_start_in_the_name_of_another_session_is_found(guardian: Guardian, agent: Agent) -> None:
    agent.begin()
    agent.step("steps/subagentStart")
    (row,) = guardian.store.entries(session_of(guardian, agent))
    assert row["findings"] == ["parent_session_differs"]


def test_a_log_is_told_what_became_of_each_request_and_no_text(tmp_path: Path) -> None:
    notices: list[Notice] = []
    agent = Agent(guardian_at(tmp_path / "acs.db", notice=notices.append).answer)
    agent.begin()
    agent.step(TOOL)
    agent.post(agent.unsigned(TOOL, PAYLOADS[TOOL]))
    agent.ask(f"steps/{TEXT}", {})
    agent.ask(f"protocols/MCP/{TEXT}", {"a": TEXT})
    agent.post(agent.unsigned("system/ping", {}))
    agent.send(b"nonsense")
    agent.post({TEXT: TEXT})
    assert [(notice.method, notice.outcome) for notice in notices] == [
        ("handshake/hello", "hello"),
        (TOOL, "allow"),
        (TOOL, "-32004"),
        ("other", "-32601"),
        ("protocols/MCP/*", "-32003"),
        ("system/ping", "pong"),
        (None, "-32700"),
        (None, "-32600"),
    ]
    assert TEXT not in repr(notices)
    assert notices[2].session_id is None, "nobody vouches for the session of an unsigned request"


def test_a_fault_of_ours_is_a_denial_that_names_only_its_type(
    guardian: Guardian, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    notices: list[Notice] = []
    guardian._notice = notices.append
    agent.begin()

    def fail(*_: object, **__: object) -> None:
        raise LookupError(TEXT)

    monkeypatch.setattr(guardian.store, "append", fail)
    answer = agent.step(TOOL)
    assert (answer["result"]["decision"], answer["result"]["reason_codes"]) == ("deny", ["evaluation_failed"])
    assert code(agent.step("steps/turnEnd")) == (-32603, "evaluation_failed")
    assert TEXT not in json.dumps(answer) + repr(notices)
    assert [notice.fault for notice in notices[1:]] == ["LookupError", "LookupError"]
    monkeypatch.undo()
    assert agent.step(TOOL)["result"]["decision"] == "allow"


def test_a_store_that_is_gone_denies_every_step_and_says_so(guardian: Guardian, agent: Agent) -> None:
    agent.begin()
    guardian.store.close()
    answer = agent.step(TOOL)
    assert (answer["result"]["decision"], answer["result"]["reason_codes"]) == ("deny", ["store_unavailable"])
    assert code(agent.step("steps/postCompact")) == (-32603, "store_unavailable")
    assert code(Agent(guardian.answer).begin()) == (-32603, "store_unavailable")
    assert agent.ask("system/ping", {})["result"]["payload"]["status"] == "ok"


def test_a_database_without_room_denies_as_full_and_goes_on_when_there_is_some(
    guardian: Guardian, agent: Agent
) -> None:
    agent.begin()
    database = guardian.store.database
    pages = database.rows("PRAGMA page_count")[0][0]
    database.execute(f"PRAGMA max_page_count = {pages}")
    answers = [agent.step(TOOL)["result"] for _ in range(60)]
    full = [result for result in answers if result["decision"] == "deny"]
    assert {tuple(result["reason_codes"]) for result in full} == {("store_full",)}
    assert all("chain_hash" not in result for result in full)
    database.execute("PRAGMA max_page_count = 1000000")
    assert agent.step(TOOL)["result"]["decision"] == "allow"
    session = session_of(guardian, agent)
    assert session.entries == len(answers) - len(full) + 1
    assert verify(guardian.store, session).broken is None
