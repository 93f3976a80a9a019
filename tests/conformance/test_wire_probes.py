"""The obligations of the corpus's wire probes, each by its id, against a real process."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from awr.guardian.envelope import rfc3339
from awr.guardian.signature import Keys, sign
from tests.conformance.process import KEY_ID, Served, served
from tests.conformance.requirements import covers
from tests.support.acs import PAYLOADS, SECRET, Agent, hello

KEYS = Keys({KEY_ID: SECRET})
TOOL = "steps/toolCallRequest"
CALL = {"tool": {"name": "records.lookup"}, "arguments": {"id": {"value": "c-1"}}}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("wire")) as found:
        yield found


@pytest.fixture
def agent(door: Served) -> Agent:
    """An agent whose session has begun."""
    agent = stranger(door)
    agent.begin()
    return agent


def stranger(door: Served) -> Agent:
    """Return an agent that has not shaken hands."""
    return Agent(door.send, keys=KEYS, key_id=KEY_ID)


def code(answer: Any) -> int:
    """Return the code of a refusal."""
    found: int = answer["error"]["code"]
    return found


@covers("signature")
def test_d1a_an_unsigned_request_is_refused(agent: Agent) -> None:
    assert code(agent.post(agent.unsigned(TOOL, CALL))) == -32004


@covers("signature")
def test_d1b_an_inverted_signature_is_refused(agent: Agent) -> None:
    request = agent.request(TOOL, CALL)
    value = base64.b64decode(request["params"]["signature"]["value"])
    request["params"]["signature"]["value"] = base64.b64encode(bytes(byte ^ 255 for byte in value)).decode()
    assert code(agent.post(request)) == -32004


@covers("signature")
@pytest.mark.parametrize("left_out", ["session_id", "request_id", "payload", "timestamp", "method"])
def test_d1c_a_signature_over_a_part_is_refused(agent: Agent, left_out: str) -> None:
    request = agent.unsigned(TOOL, CALL)
    part = json.loads(json.dumps(request))
    for place in (part, part["params"], part["params"]["metadata"]):
        place.pop(left_out, None)
    signed = sign(part, place="params", keys=KEYS, key_id=KEY_ID, session_id=agent.session_id)
    request["params"]["signature"] = signed["params"]["signature"]
    assert code(agent.post(request)) == -32004


@covers("replay")
def test_d2a_a_repeated_request_id_is_refused(agent: Agent) -> None:
    request = agent.request(TOOL, CALL)
    assert agent.post(request)["result"]["decision"] == "allow"
    assert code(agent.post(request)) == -32005
    other = agent.request(TOOL, PAYLOADS[TOOL], request_id=request["params"]["request_id"])
    assert code(agent.post(other)) == -32005


@covers("replay")
def test_d2b_a_repeated_nonce_is_refused(agent: Agent) -> None:
    assert agent.ask(TOOL, CALL, nonce="n" * 16)["result"]["decision"] == "allow"
    assert code(agent.ask(TOOL, CALL, nonce="n" * 16)) == -32005


@covers("replay")
def test_d2c_the_same_bytes_are_refused_after_a_restart(tmp_path: Path) -> None:
    with served(tmp_path) as door:
        agent = stranger(door)
        greeting = json.dumps(agent.request("handshake/hello", hello())).encode()
        step = json.dumps(agent.request(TOOL, CALL)).encode()
        assert "negotiated_version" in json.loads(door.send(greeting))["result"]
        first = json.loads(door.send(step))["result"]
    with served(tmp_path) as door:
        assert [code(json.loads(door.send(body))) for body in (greeting, step)] == [-32005, -32005]
        agent.send = door.send
        later = agent.ask(TOOL, CALL)["result"]
        assert (later["decision"], later["chain_hash"] != first["chain_hash"]) == ("allow", True)


@covers("freshness")
def test_d3a_the_server_hello_says_the_skew_window(door: Served) -> None:
    assert stranger(door).begin()["result"]["skew_window_ms"] == 300_000


@covers("freshness")
@pytest.mark.parametrize("seconds", [pytest.param(-3600, id="d3b"), pytest.param(3600, id="d3c")])
def test_d3bc_a_time_an_hour_away_is_refused(agent: Agent, seconds: int) -> None:
    at = rfc3339(int(time.time() + seconds) * 1000)
    assert code(agent.ask(TOOL, CALL, timestamp=at)) == -32006


@covers("chain-head")
@covers("signature")
def test_d4ab_allow_and_deny_carry_a_head_that_moves_under_a_signature_that_verifies(agent: Agent) -> None:
    first = agent.ask(TOOL, CALL)["result"]
    second = agent.ask(TOOL, CALL)["result"]
    denied = agent.ask(TOOL, CALL, metadata={"session_state": {"chain_hash": "0" * 64}})["result"]
    assert [found["decision"] for found in (first, second, denied)] == ["allow", "allow", "deny"]
    assert len({found["chain_hash"] for found in (first, second, denied)}) == 3


@covers("chain-mismatch")
def test_d4c_a_head_that_cannot_match_is_denied(agent: Agent) -> None:
    agent.ask(TOOL, CALL)
    result = agent.ask(TOOL, CALL, metadata={"session_state": {"chain_hash": "f" * 64}})["result"]
    assert (result["decision"], result["reason_codes"]) == ("deny", ["chain_mismatch"])


@covers("liveness")
def test_d5_a_ping_is_answered_by_allow(door: Served) -> None:
    agent = stranger(door)
    result = agent.post(agent.unsigned("system/ping", {"echo": "d5"}))["result"]
    assert (result["decision"], result["payload"]["echo"]) == ("allow", "d5")


@covers("versions")
def test_d6a_an_unsupported_version_is_refused(door: Served) -> None:
    answer = stranger(door).begin(acs_versions_supported=["9.0.0"])
    assert (code(answer), answer["error"]["data"]["supported_versions"]) == (-32001, ["0.1.0"])


@covers("handshake")
def test_d6b_the_accepted_profiles_are_sent(door: Served) -> None:
    agreed = stranger(door).begin(profiles_supported=["acs-core", "acs-crypto"])["result"]
    assert agreed["profiles_accepted"] == ["acs-core"]


@covers("handshake")
def test_d6c_a_method_that_was_not_offered_is_refused(door: Served) -> None:
    agent = stranger(door)
    agent.begin(methods_implemented=["steps/toolCallResult"])
    assert code(agent.ask(TOOL, CALL)) == -32003


@covers("handshake")
def test_d6d_a_step_without_a_handshake_is_refused(door: Served) -> None:
    assert code(stranger(door).ask(TOOL, CALL)) == -32003


@covers("hooks")
@pytest.mark.parametrize("name", ["sessionStart", "userMessage", "agentResponse", "sessionEnd"])
def test_d7_the_hooks_around_a_tool_are_answered(agent: Agent, name: str) -> None:
    result = agent.step(f"steps/{name}")["result"]
    assert (result["decision"], len(result["chain_hash"])) == ("allow", 64)


@covers("errors")
@pytest.mark.parametrize("length", [1025, 100_000])
def test_d11a_a_session_id_without_measure_gets_an_answer(door: Served, length: int) -> None:
    agent = stranger(door)
    agent.session_id = "s" * length
    assert code(agent.post(agent.request(TOOL, CALL))) == -32600


@covers("errors")
@pytest.mark.parametrize("depth", [65, 1_000, 100_000])
def test_d11b_a_payload_that_is_nested_without_measure_gets_an_answer(agent: Agent, depth: int) -> None:
    whole = json.dumps(agent.request(TOOL, {"nested": "HERE"}))
    body = whole.replace('"HERE"', "[" * depth + "]" * depth).encode()
    assert code(json.loads(agent.send(body))) in {-32700, -32600}
    assert agent.ask(TOOL, CALL)["result"]["decision"] == "allow", "and the Guardian goes on"
