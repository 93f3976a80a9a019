"""The corpus's abstract requests, made into requests that the wire of 0.1.0 carries, and really signed or not."""

from __future__ import annotations

import base64
import copy
import uuid
from collections.abc import Mapping
from typing import Any

from awr.guardian.envelope import milliseconds
from awr.guardian.signature import sign
from tests.support.acs import Agent

__all__ = ["moment", "on_the_wire", "session_of", "signed_as"]


def session_of(request: Mapping[str, Any]) -> str:
    """Return a request's session as a UUID: its own, or one that is always the same for its short name."""
    name = parts(request)["metadata"]["session_id"]
    try:
        return str(uuid.UUID(name))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"acs-core-corpus:{name}"))


def moment(timestamp: str) -> int:
    """Return a time of the corpus in Unix milliseconds."""
    found = milliseconds(timestamp)
    assert found is not None
    return found


def parts(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what has the ids, the time and the metadata, in either of the corpus's two forms."""
    inner: Mapping[str, Any] = request["params"] if "jsonrpc" in request else request
    return inner


def on_the_wire(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request unsigned. Ids, times and versions are kept; what 0.1.0 spells otherwise is spelled so."""
    inner = parts(request)
    real = "jsonrpc" in request
    method = request["method"].replace("hooks/", "steps/")
    return {
        "jsonrpc": "2.0",
        "method": method,
        "id": request["id"] if real else request["request_id"],
        "params": {
            "acs_version": inner["acs_version"] if real else f"{request['acs']}.0",
            "request_id": inner["request_id"],
            "timestamp": inner["timestamp"],
            "metadata": {"agent_id": "agent", **inner["metadata"], "session_id": session_of(request)},
            "payload": _payload(method, inner["payload"] if real else inner["params"]),
        },
    }


def _payload(method: str, stated: Mapping[str, Any]) -> dict[str, Any]:
    if method == "steps/toolCallRequest" and "arguments" in stated["tool"]:
        tool = dict(stated["tool"])
        arguments = {name: {"value": value} for name, value in tool.pop("arguments").items()}
        return {"tool": tool, "arguments": arguments}
    if method == "steps/toolCallResult" and isinstance(stated["outputs"], Mapping):
        outputs = [{"value": {name: value}} for name, value in stated["outputs"].items()]
        return {"tool": {"name": "a tool that the corpus does not name"}, **stated, "outputs": outputs}
    return dict(stated)


def signed_as(agent: Agent, message: dict[str, Any], *, state: str, omitted: tuple[str, ...] = ()) -> dict[str, Any]:
    """Sign a message as a member says that it is signed.

    `omitted` are the members, as dotted paths in `params`, that a signature over a part leaves out.
    """
    if state == "ABSENT":
        return message
    covered = copy.deepcopy(message)
    for path in omitted:
        *folders, name = path.split(".")
        place = covered["params"]
        for folder in folders:
            place = place[folder]
        del place[name]
    signature = sign(covered, place="params", keys=agent.keys, key_id=agent.key_id, session_id=agent.session_id)[
        "params"
    ]["signature"]
    if state == "INVALID":
        value = bytearray(base64.b64decode(signature["value"]))
        value[0] ^= 1
        signature = {**signature, "value": base64.b64encode(value).decode()}
    else:
        assert state in {"VALID", "COVERS_SUBSET"}, state
        assert (state == "COVERS_SUBSET") == bool(omitted)
    return {**message, "params": {**message["params"], "signature": signature}}
