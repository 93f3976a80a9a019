"""The ten checks of the reference implementation's external probe, in its order, against a real process."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from awr.guardian.signature import Keys
from tests.conformance.process import KEY_ID, Served, served
from tests.conformance.requirements import covers
from tests.support.acs import SECRET, Agent, hello

KEYS = Keys({KEY_ID: SECRET})
BASH = {"tool": {"name": "Bash"}, "arguments": {"command": {"value": "echo hello"}}}
OFFERED = hello(methods_implemented=["steps/toolCallRequest", "steps/toolCallResult"])


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("probe")) as found:
        yield found


class Probe(Agent):
    """The probe: it believes no answer to a signed request that is not signed under its label."""

    def confirmed(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a signed request and return its answer."""
        answer: dict[str, Any] = self.post(request)
        place = "result" if "result" in answer else "error"
        assert self.is_signed(answer)
        assert answer[place]["signature"]["key_id"] == KEY_ID
        assert answer["id"] == request["id"]
        return answer


def code(answer: dict[str, Any]) -> int:
    """Return the code of a refusal."""
    found: int = answer["error"]["code"]
    return found


@covers("envelope")
@covers("errors")
@covers("handshake")
@covers("allow-and-deny")
@covers("replay")
@covers("signature")
def test_the_ten_checks_of_the_external_probe_pass_in_their_order(door: Served) -> None:
    probe = Probe(door.send, keys=KEYS, key_id=KEY_ID)
    another = Probe(door.send, keys=KEYS, key_id=KEY_ID)

    wrong = {**probe.unsigned("steps/toolCallRequest", BASH), "jsonrpc": "1.0"}
    assert code(probe.post(wrong)) == -32600, "1: another JSON-RPC"
    assert code(probe.confirmed(probe.request("steps/toolCallRequest", BASH))) == -32003, "2: before the handshake"
    offer = {**OFFERED, "transports_supported": ["stdio"]}
    assert code(another.confirmed(another.request("handshake/hello", offer))) == -32000, "3: no common transport"
    agreed = probe.confirmed(probe.request("handshake/hello", OFFERED))["result"]
    assert agreed["negotiated_version"] == "0.1.0", "4: the ServerHello is the result"
    allowed = probe.request("steps/toolCallRequest", BASH)
    again = copy.deepcopy(allowed)
    assert probe.confirmed(allowed)["result"]["decision"] == "allow", "5: a call of a tool"
    assert code(probe.confirmed(again)) == -32005, "6: the same again"
    lacking = probe.request("steps/toolCallRequest", {"tool": {"name": "Bash"}})
    assert code(probe.confirmed(lacking)) == -32602, "7: without arguments"
    assert code(probe.confirmed(lacking)) == -32005, "8: the same again"
    unoffered = probe.request("steps/userMessage", {"content": [{"type": "text", "value": "hello"}]})
    assert code(probe.confirmed(unoffered)) == -32003, "9: a method that was not offered"
    assert code(probe.confirmed(unoffered)) == -32005, "10: the same again"
