"""The same door in the shared service: who gets to it, what is counted, and what stays as it was."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from awr.guardian.hooks import HOOKS
from awr.surfaces.http.metrics import Metrics
from tests.support.acs import PAYLOADS, Agent, hello
from tests.support.cli import spawn
from tests.support.doors import Client, agent_of, chained, secret_file
from tests.support.projects import make_project
from tests.support.service import Agent as Team
from tests.support.service import Running, listening, registry_text, token_of

TOOL = "steps/toolCallRequest"
ORIGIN = "https://app.example"


def registry_in(folder: Path) -> Path:
    projects = {"alpha": make_project(folder / "alpha")}
    path = folder / "service.toml"
    path.write_text(registry_text(projects, {"ada": {"read": ["alpha"]}}, head=f'allowed_origins = ["{ORIGIN}"]'))
    return path


@contextmanager
def service(folder: Path, *words: str | Path) -> Iterator[Running]:
    """Run `awr serve` until the block ends."""
    command = [sys.executable, "-m", "awr", "serve", "--registry", str(folder / "service.toml")]
    command += ["--listen", "127.0.0.1:0", *map(str, words)]
    with listening(command, folder, says="AWR MCP", environment={"TOKEN_ada": token_of("ada")}) as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("mount")
    registry_in(found)
    return found


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Running]:
    with service(folder, "--acs-secret-file", secret_file(folder)) as found:
        yield found


@pytest.fixture
def client(running: Running) -> Iterator[Client]:
    with Client(running) as found:
        yield found


@pytest.fixture
def agent(client: Client) -> Agent:
    return agent_of(client)


def counted(running: Running) -> dict[tuple[str, str], int]:
    """Return the counter of ACS requests."""
    with Team(running, "ada") as ada:
        text = ada.get("/metrics").content.decode()
    pattern = r'^awr_acs_requests_total\{method="([^"]*)",outcome="([^"]*)"\} (\d+)$'
    return {(method, outcome): int(number) for method, outcome, number in re.findall(pattern, text, re.MULTILINE)}


def test_agents_without_a_token_are_answered_beside_those_with_one(
    folder: Path, running: Running, agent: Agent
) -> None:
    agent.begin()
    heads = [agent.step(method)["result"]["chain_hash"] for method in HOOKS]
    with Team(running, "ada") as ada:
        assert ada.call("awr_projects_list").value()["client"] == "ada"
    assert list(chained(folder / "acs.db", agent.session_id).values()) == heads, "the record lies beside the registry"
    assert (folder / "acs.db").stat().st_mode & 0o777 == 0o600


def test_what_becomes_of_requests_is_counted_under_names_of_our_own(running: Running, agent: Agent) -> None:
    before = counted(running)
    agent.begin()
    agent.step(TOOL)
    agent.ask("system/ping", {})
    agent.ask(TOOL, {})
    agent.ask("steps/zqMARKERzq", {})
    agent.ask("protocols/MCP/resources/read", {"params": {}})
    agent.step(TOOL, metadata={"session_state": {"chain_hash": "0" * 64}})
    agent.post(7)
    after = counted(running)
    changed = {key: number - before.get(key, 0) for key, number in after.items() if number != before.get(key, 0)}
    assert changed == {
        ("handshake/hello", "hello"): 1,
        (TOOL, "allow"): 1,
        (TOOL, "deny"): 1,
        ("system/ping", "pong"): 1,
        (TOOL, "-32602"): 1,
        ("other", "-32601"): 1,
        ("protocols/MCP/*", "-32003"): 1,
        ("none", "-32600"): 1,
    }


def test_refusals_are_logged_as_the_guardian_tells_them_and_not_as_calls(running: Running, agent: Agent) -> None:
    agent.begin()
    before = len(running.log())
    agent.ask(TOOL, {})
    agent.step(TOOL)
    agent.step(TOOL, metadata={"session_state": {"chain_hash": "0" * 64}})
    lines = running.log()[before:]
    assert [(line["event"], line["method"], line["outcome"], line["session"]) for line in lines] == [
        ("acs", TOOL, "-32602", agent.session_id),
        ("acs", TOOL, "deny", agent.session_id),
    ]
    with Team(running, "ada") as ada:
        text = ada.get("/metrics").content.decode()
    assert "awr_mcp_protocol_errors_total{" not in text, "they are no errors of the other protocol"


def test_a_page_of_another_origin_is_refused_before_anything_is_read(client: Client, agent: Agent) -> None:
    agent.begin()
    refused = client.post(b"{}", Origin="https://elsewhere.example")
    assert refused.status == 403
    assert client.post(b"{}", Origin=ORIGIN).refusal() == (-32600, "invalid_envelope")


def test_another_method_is_refused_and_other_paths_are_as_they_were(client: Client) -> None:
    assert client.ask("GET", "/acs").status == 405
    assert client.ask("POST", "/acs/", b"{}").status == 404
    assert client.ask("POST", "/mcp", b"{}").status == 401
    assert client.ask("GET", "/metrics").status == 401
    assert client.ask("GET", "/health").body == b'{"ok":true}'


def test_a_body_over_the_guardians_own_cap_is_refused_as_everywhere(client: Client, agent: Agent) -> None:
    refused = client.post(b"x" * (1_048_576 + 1))
    assert refused.refusal() == (-32600, "payload_too_large")
    assert refused.headers["connection"] == "close"
    assert "x-request-id" in refused.headers
    assert "negotiated_version" in agent.begin()["result"]


def test_without_the_option_there_is_no_door_and_no_database(tmp_path: Path) -> None:
    registry_in(tmp_path)
    with service(tmp_path) as running, Client(running) as client:
        assert client.post(b"{}").status == 404
        assert running.stop() == 0
    assert not (tmp_path / "acs.db").exists()


def test_the_door_of_the_shared_service_ends_in_order_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    registry_in(tmp_path)
    words = ("--acs-secret-file", secret_file(tmp_path), "--acs-database", tmp_path / "elsewhere.db")
    with service(tmp_path, *words) as running, Client(running) as client:
        agent = agent_of(client)
        begin, step = agent.request("handshake/hello", hello()), agent.request(TOOL, PAYLOADS[TOOL])
        assert "result" in agent.post(begin)
        assert agent.post(step)["result"]["decision"] == "allow"
        assert running.stop() == 0
    assert list(tmp_path.glob("elsewhere.db-*")) == []
    with service(tmp_path, *words) as running, Client(running) as client:
        agent.send = client.send
        assert agent.post(begin)["error"]["code"] == -32005
        assert agent.post(step)["error"]["code"] == -32005
        assert agent.step(TOOL)["result"]["decision"] == "allow"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--acs-key-id", "one"), "InvalidInput"),
        (("--acs-database", "acs.db"), "InvalidInput"),
        (("--acs-secret-file", "missing"), "NotFound"),
    ],
)
def test_a_door_that_cannot_be_set_up_keeps_the_service_from_starting(
    tmp_path: Path, words: tuple[str, ...], code: str
) -> None:
    registry = registry_in(tmp_path)
    outcome = spawn(
        *map(str, ("--json", "serve", "--registry", registry, "--listen", "127.0.0.1:0", *words)),
        cwd=tmp_path,
        environment={"TOKEN_ada": token_of("ada")},
    )
    error = outcome.error(code)
    if code == "InvalidInput":
        assert "give --acs-secret-file FILE" in error["details"]["next_step"]
    assert not (tmp_path / "acs.db").exists()


def test_a_counter_of_acs_requests_begins_at_nothing_and_says_what_it_is() -> None:
    metrics = Metrics()
    assert "# TYPE awr_acs_requests_total counter" in metrics.text()
    metrics.acs(TOOL, "allow")
    assert f'awr_acs_requests_total{{method="{TOOL}",outcome="allow"}} 1' in metrics.text()
