"""Both eras of the protocol, by the SDK's own client and by hand: what is listed, called and refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from awr.surfaces.mcp.catalogue import DOMAINS, TOOLS
from tests.support.service import MODERN, Agent, modern_headers, modern_params, token_of
from tests.support.team import Serve, Team


@pytest.fixture
def ada(team: Team) -> Iterator[Agent]:
    with team.agent("ada") as agent:
        yield agent


@pytest.mark.parametrize(
    ("mode", "version"), [("legacy", "2025-11-25"), (MODERN, MODERN), ("auto", MODERN)], ids=["2025", "2026", "auto"]
)
def test_the_sdks_own_client_lists_and_calls_in_both_eras(team: Team, mode: Any, version: str) -> None:
    async def main() -> None:
        authorization = {"Authorization": f"Bearer {token_of('ada')}"}
        async with httpx2.AsyncClient(headers=authorization, trust_env=False) as http:
            transport = streamable_http_client(team.running.url, http_client=http)
            async with Client(transport, mode=mode) as client:
                assert client.session.protocol_version == version
                listed = [tool.name for tool in (await client.list_tools()).tools]
                assert listed == ["awr_projects_list", *DOMAINS]
                found = await client.call_tool("awr_projects_list", {})
                assert found.structured_content is not None
                assert [one["key"] for one in found.structured_content["projects"]] == ["alpha", "beta"]
                status = await client.call_tool("awr_project_status", {"project": "beta"})
                assert (status.is_error, status.structured_content is not None) == (False, True)
                refused = await client.call_tool("awr_project_status", {"project": "gamma"})
                assert refused.is_error

    anyio.run(main)


def test_the_server_says_who_it_is_and_where_to_begin(ada: Agent) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    result = ada.rpc("initialize", params).json()["result"]
    assert result["protocolVersion"] == "2025-11-25"
    assert result["serverInfo"]["name"] == "awr-mcp"
    assert result["capabilities"].keys() == {"tools"}
    assert "awr_projects_list" in result["instructions"]
    done = ada.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert (done.status, done.content) == (202, b"")


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_request_of_an_earlier_version_needs_no_session(ada: Agent, version: str) -> None:
    assert ada.rpc("tools/list", headers={"MCP-Protocol-Version": version}).status == 200


def test_flat_exposure_lists_every_tool_behind_the_projects(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWR_MCP_TOOL_EXPOSURE_MODE", "flat")
    with serve() as team, team.agent("ada") as ada:
        tools = ada.rpc("tools/list").json()["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["awr_projects_list", *TOOLS]
        assert all("project" in tool["inputSchema"]["required"] for tool in tools[1:])


def test_a_cursor_is_no_parameter_of_one_page(ada: Agent) -> None:
    assert ada.rpc("tools/list", {"cursor": "x"}).rpc_error()["code"] == -32602


def test_a_legacy_error_of_the_protocol_is_a_success_of_http(ada: Agent) -> None:
    for reply, code in (
        (ada.call("awr_nothing", project="alpha"), -32601),
        (ada.rpc("nothing/like/it"), -32601),
        (ada.call("awr_query", project="alpha", child_tool="awr_session_get", arguments={}), -32602),
    ):
        assert (reply.status, reply.rpc_error()["code"]) == (200, code)


def modern(agent: Agent, method: str, /, *, headers: Any = None, **params: Any) -> Any:
    named = params.get("name")
    return agent.rpc(method, modern_params(**params), headers={**modern_headers(method, named), **(headers or {})})


def test_a_modern_call_needs_nothing_before_it(ada: Agent) -> None:
    reply = modern(ada, "tools/call", name="awr_work_ready", arguments={"project": "alpha"})
    assert (reply.status, reply.value()["ok"]) == (200, True)
    assert "mcp-session-id" not in reply.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Mcp-Name": "awr_search"},
        {"Mcp-Name": ""},
        {"Mcp-Method": "tools/list"},
        {"Mcp-Method": ""},
    ],
)
def test_a_header_that_differs_from_the_body_is_a_bad_request(ada: Agent, headers: dict[str, str]) -> None:
    reply = modern(ada, "tools/call", name="awr_work_ready", arguments={"project": "alpha"}, headers=headers)
    assert (reply.status, reply.rpc_error()["code"]) == (400, -32020)


def test_a_body_of_another_version_than_its_header_is_a_bad_request(ada: Agent) -> None:
    params = {"_meta": {**modern_params()["_meta"], "io.modelcontextprotocol/protocolVersion": "2025-11-25"}}
    reply = ada.rpc("tools/list", params, headers=modern_headers("tools/list"))
    assert (reply.status, reply.rpc_error()["code"]) == (400, -32020)


def test_a_modern_request_without_its_own_words_is_a_bad_request(ada: Agent) -> None:
    reply = ada.rpc("tools/list", {}, headers=modern_headers("tools/list"))
    assert (reply.status, reply.rpc_error()["code"]) == (400, -32602)


def test_an_unknown_version_is_a_bad_request(ada: Agent) -> None:
    reply = ada.rpc(
        "tools/list", modern_params(), headers={**modern_headers("tools/list"), "MCP-Protocol-Version": "x"}
    )
    assert reply.status == 400


@pytest.mark.parametrize(
    ("method", "params", "status", "code"),
    [
        ("tools/call", {"name": "awr_nothing", "arguments": {"project": "alpha"}}, 404, -32601),
        ("nothing/like/it", {}, 404, -32601),
        ("tools/call", {"name": "awr_projects_list", "arguments": {"x": 1}}, 400, -32602),
        ("tools/call", {"name": "awr_query", "arguments": {"project": "alpha", "child_tool": "x"}}, 400, -32602),
        ("tools/call", {"name": "awr_query", "arguments": {"project": "gamma"}}, 200, -32603),
    ],
)
def test_a_modern_error_of_the_protocol_has_a_status_of_its_own(
    ada: Agent, method: str, params: dict[str, Any], status: int, code: int
) -> None:
    reply = modern(ada, method, **params)
    assert (reply.status, reply.rpc_error()["code"]) == (status, code)


def test_a_modern_refusal_of_a_tool_is_a_success_of_http(ada: Agent) -> None:
    modern(ada, "tools/call", name="awr_search", arguments={"project": "gamma"}).error("RuleViolation")


def test_both_eras_answer_a_call_with_the_same_content(ada: Agent) -> None:
    call = {"name": "awr_work_get", "arguments": {"project": "alpha", "work": "parse"}}
    legacy = ada.rpc("tools/call", call).json()["result"]
    now = modern(ada, "tools/call", **call).json()["result"]
    assert legacy["structuredContent"] == now["structuredContent"]
    assert json.loads(now["content"][0]["text"]) == now["structuredContent"]
