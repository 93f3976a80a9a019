"""The wire: envelope, handshake, versions, errors, signature, freshness and liveness."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from awr.guardian.envelope import rfc3339
from awr.guardian.guardian import Guardian
from awr.guardian.refusals import Code
from awr.guardian.signature import Keys
from tests.conformance.conftest import NOW, Clock
from tests.conformance.requirements import covers
from tests.support.acs import Agent, hello

TOOL = "steps/toolCallRequest"


def code(answer: Any) -> int:
    """Return the code of a refusal."""
    found: int = answer["error"]["code"]
    return found


@covers("envelope")
@pytest.mark.parametrize(
    "change",
    [
        {"jsonrpc": "1.0"},
        {"jsonrpc": None},
        {"method": "tools/call"},
        {"method": ""},
        {"id": None},
        {"params": []},
        {"more": 1},
    ],
)
def test_what_breaks_the_envelope_is_an_invalid_request(agent: Agent, change: dict[str, Any]) -> None:
    assert code(agent.post({**agent.request(TOOL, {}), **change})) == -32600


@covers("envelope")
@pytest.mark.parametrize("member", ["acs_version", "request_id", "timestamp", "metadata", "payload"])
def test_each_required_member_is_required(agent: Agent, member: str) -> None:
    request = agent.unsigned(TOOL, {})
    del request["params"][member]
    assert code(agent.post(request)) == -32600


@covers("envelope")
def test_members_of_the_future_are_ignored_and_signed(agent: Agent) -> None:
    agent.begin()
    request = agent.request(TOOL, {"tool": {"name": "Bash", "later": 1}, "arguments": {}, "later": {}}, later=[1])
    assert agent.post(request)["result"]["decision"] == "allow"
    request = agent.request(TOOL, {"tool": {"name": "Bash"}, "arguments": {}}, later=[1])
    request["params"]["later"] = [2]
    assert code(agent.post(request)) == -32004


@covers("envelope")
def test_a_batch_is_answered_item_by_item_in_its_order(agent: Agent) -> None:
    agent.begin()
    requests = [agent.request(TOOL, {"tool": {"name": "Bash"}, "arguments": {}}) for _ in range(3)]
    answers = agent.post([requests[0], {"jsonrpc": "1.0", "id": 7}, requests[1], requests[0]])
    assert [answer["id"] for answer in answers] == [requests[0]["id"], 7, requests[1]["id"], requests[0]["id"]]
    assert [answer.get("error", {}).get("code", 0) for answer in answers] == [0, -32600, 0, -32005]
    assert code(agent.post([])) == -32600


@covers("versions")
@pytest.mark.parametrize(("version", "understood"), [("0.1.3", True), ("0.9.0", True), ("1.0.0", False)])
def test_a_version_is_understood_by_its_major(agent: Agent, version: str, understood: bool) -> None:
    agent.begin()
    answer = agent.step(TOOL, acs_version=version)
    assert ("result" in answer) == understood
    assert understood or (code(answer), answer["error"]["data"]["supported_versions"]) == (-32001, ["0.1.0"])


@covers("handshake")
def test_a_server_hello_is_the_result_itself_and_says_what_was_agreed(
    agent: Agent, record_property: Callable[[str, object], None]
) -> None:
    offered = hello(methods_implemented=[TOOL, "agbom/snapshot", "system/ping"], profiles_supported=["acs-core", "x"])
    result = agent.ask("handshake/hello", offered)["result"]
    assert result["negotiated_version"] == "0.1.0"
    assert result["methods_evaluated"] == [TOOL, "system/ping"]
    assert result["selected_transport"] == "http"
    assert result["profiles_accepted"] == ["acs-core"]
    assert {"type", "decision"}.isdisjoint(result)
    del result["signature"]
    record_property("server_hello", json.dumps(result))


@covers("handshake")
@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"acs_versions_supported": ["1.0.0", "2.0.0"]}, Code.UNSUPPORTED_VERSION),
        ({"acs_versions_supported": []}, Code.INVALID_PARAMS),
        ({"transports_supported": ["stdio"]}, Code.SESSION_REFUSED),
        ({"provenance_producer": "llm"}, Code.INVALID_PARAMS),
    ],
)
def test_a_hello_that_cannot_be_agreed_on_begins_nothing(agent: Agent, change: dict[str, Any], refused: Code) -> None:
    assert code(agent.begin(**change)) == refused
    assert code(agent.step(TOOL)) == Code.CAPABILITY_NOT_NEGOTIATED
    assert "result" in agent.begin(), "another hello may be agreed on"


@covers("handshake")
def test_a_policy_that_needs_provenance_refuses_a_client_without(
    make_guardian: Callable[..., Guardian], clock: Clock
) -> None:
    class Needy:
        name = "needy"
        requires_provenance = True

    agent = Agent(make_guardian(Needy()).answer, clock=clock)
    assert code(agent.begin(provenance_producer="none")) == Code.PROVENANCE_REQUIRED
    assert agent.begin()["result"]["policy_requires_provenance"] is True


@covers("handshake")
def test_a_session_begins_once(agent: Agent) -> None:
    agent.begin()
    again = agent.begin()
    assert (code(again), again["error"]["data"]["reason"]) == (-32000, "renegotiation_not_supported")
    assert agent.step(TOOL)["result"]["decision"] == "allow"


@covers("errors")
def test_a_body_that_is_no_json_is_a_parse_error(guardian: Guardian) -> None:
    for body in (b"", b"{", b"\xff", b'{"a": NaN}', b"[" * 10_000):
        assert code(json.loads(guardian.answer(body))) == Code.PARSE_ERROR


@covers("errors")
@pytest.mark.parametrize(
    ("method", "refused"),
    [
        ("steps/later", Code.METHOD_NOT_FOUND),
        ("system/later", Code.METHOD_NOT_FOUND),
        ("agbom/snapshot", Code.CAPABILITY_NOT_NEGOTIATED),
        ("protocols/A2A/message", Code.CAPABILITY_NOT_NEGOTIATED),
    ],
)
def test_a_method_is_not_found_or_not_negotiated(agent: Agent, method: str, refused: Code) -> None:
    agent.begin()
    answer = agent.ask(method, {})
    assert code(answer) == refused
    assert answer["error"]["data"]["message"]


@covers("errors")
def test_a_payload_that_breaks_its_schema_is_invalid_and_not_repeated(agent: Agent) -> None:
    agent.begin()
    answer = agent.ask(TOOL, {"tool": {"name": "Bash"}, "arguments": "a secret text"})
    assert code(answer) == Code.INVALID_PARAMS
    assert "secret" not in json.dumps(answer)


@covers("signature")
@pytest.mark.parametrize("place", ["method", "id", "timestamp", "session_id", "payload", "jsonrpc"])
def test_a_signature_covers_the_whole_request(agent: Agent, place: str) -> None:
    agent.begin()
    request = agent.request(TOOL, {"tool": {"name": "Bash"}, "arguments": {}})
    params = request["params"]
    match place:
        case "method":
            request["method"] = "steps/toolCallResult"
        case "id":
            request["id"] = "another"
        case "timestamp":
            params["timestamp"] = rfc3339(NOW + 1)
        case "session_id":
            params["metadata"]["session_id"] = str(uuid.uuid4())
        case "payload":
            params["payload"]["tool"]["name"] = "bash"
        case _:
            request["jsonrpc"] = "2.1"
    assert code(agent.post(request)) == (-32600 if place == "jsonrpc" else -32004)


@covers("signature")
@pytest.mark.parametrize(
    "change",
    [
        {"algorithm": "HMAC-SHA1"},
        {"algorithm": "none"},
        {"key_id": "another"},
        {"value": ""},
        {"value": "not base64"},
        {"value": None},
    ],
)
def test_a_signature_of_another_kind_is_invalid(agent: Agent, change: dict[str, Any]) -> None:
    agent.begin()
    request = agent.request(TOOL, {"tool": {"name": "Bash"}, "arguments": {}})
    request["params"]["signature"].update(change)
    answer = agent.post(request)
    assert code(answer) == -32004
    assert "signature" not in answer["error"]


@covers("signature")
def test_answers_and_refusals_alike_are_signed_under_the_label_of_the_request(
    make_guardian: Callable[..., Guardian], clock: Clock
) -> None:
    agent = Agent(make_guardian().answer, clock=clock)
    stranger = Agent(agent.send, keys=Keys({"default": b"another secret, as long as the real one is"}), clock=clock)
    agent.begin()
    for answer in (agent.step(TOOL), agent.ask(TOOL, {}), agent.begin()):
        place = "result" if "result" in answer else "error"
        assert answer[place]["signature"]["key_id"] == "default"
        assert not stranger.is_signed(answer)
    assert code(stranger.post(stranger.request(TOOL, {}))) == -32004


@covers("replay")
def test_a_request_id_is_used_up_by_a_request_that_was_refused(agent: Agent) -> None:
    agent.begin()
    request = agent.request(TOOL, {})
    assert [code(agent.post(request)), code(agent.post(request))] == [-32602, -32005]


@covers("replay")
def test_a_request_id_of_one_session_is_free_in_another(guardian: Guardian, agent: Agent, clock: Clock) -> None:
    other = Agent(guardian.answer, clock=clock)
    request_id = str(uuid.uuid4())
    for one in (agent, other):
        one.begin()
        assert "result" in one.step(TOOL, request_id=request_id)
        assert code(one.step(TOOL, request_id=request_id.upper())) == -32005


@covers("freshness")
@pytest.mark.parametrize("off", [-300_000, -1, 0, 1, 300_000])
def test_a_time_inside_the_window_is_accepted(agent: Agent, off: int) -> None:
    assert agent.begin()["result"]["skew_window_ms"] == 300_000
    assert "result" in agent.step(TOOL, timestamp=rfc3339(NOW + off))


@covers("freshness")
@pytest.mark.parametrize("off", [-300_001, 300_001, -86_400_000])
def test_a_time_outside_of_the_window_is_refused(agent: Agent, off: int) -> None:
    agent.begin()
    answer = agent.step(TOOL, timestamp=rfc3339(NOW + off))
    assert (code(answer), answer["error"]["data"]["skew_window_ms"]) == (-32006, 300_000)


@covers("liveness")
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("begun", [True, False])
def test_a_ping_is_answered_whoever_asks_and_chained_nowhere(agent: Agent, signed: bool, begun: bool) -> None:
    if begun:
        agent.begin()
    request = agent.unsigned("system/ping", {"echo": "here"})
    result = agent.post(agent.signed(request) if signed else request)["result"]
    assert (result["decision"], result["payload"]["status"], result["payload"]["echo"]) == ("allow", "ok", "here")
    assert "chain_hash" not in result
