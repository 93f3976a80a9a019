"""The application in this process: faults of our own, what is logged and counted, and where nobody listens."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from awr.surfaces.http import backend as backend_module
from awr.surfaces.http.app import Application
from awr.surfaces.http.backend import ManyProjects
from awr.surfaces.http.log import Faults, Log
from awr.surfaces.http.metrics import BUCKETS, OUTCOMES, Metrics
from awr.surfaces.http.service import load_service
from awr.surfaces.http.watch import Watch
from awr.surfaces.mcp.server import Gate, build_server
from tests.support.projects import make_project
from tests.support.service import HEADERS, modern_headers, modern_params, registry_text, token_of

CALL = {"name": "awr_session_list", "arguments": {"project": "alpha"}}


class Served:
    """An application without a socket, its log, and a client of it."""

    def __init__(self, folder: Path) -> None:
        registry = folder / "service.toml"
        projects = {"alpha": make_project(folder / "alpha")}
        registry.write_text(registry_text(projects, {"ada": {"write": ["alpha"]}}))
        service = load_service(registry, environment={"TOKEN_ada": token_of("ada")})
        self.stream = io.StringIO()
        self.watch = Watch(Log(self.stream))
        self.application = Application(service, build_server(ManyProjects(service, self.watch), Gate()), self.watch)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def run(self, act: Callable[[httpx2.AsyncClient], Awaitable[None]]) -> None:
        async def main() -> None:
            transport = httpx2.ASGITransport(self.application)
            headers = {**HEADERS, "Authorization": f"Bearer {token_of('ada')}"}
            async with (
                self.application.manager.run(),
                httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as http,
            ):
                await act(http)

        anyio.run(main)


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path)


def sentinel(*_: Any, **__: Any) -> Any:
    raise ValueError("sentinel")


@pytest.mark.parametrize("modern", [False, True])
def test_a_fault_in_a_call_is_an_internal_error_without_its_words(
    served: Served, monkeypatch: pytest.MonkeyPatch, modern: bool
) -> None:
    monkeypatch.setattr(backend_module, "call_tool", sentinel)

    async def act(http: httpx2.AsyncClient) -> None:
        headers = modern_headers("tools/call", CALL["name"]) if modern else {}  # type: ignore[arg-type]
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": modern_params(**CALL) if modern else CALL,
        }
        answer = await http.post("/mcp", json=body, headers=headers)
        error = answer.json()["error"]
        assert (error["code"], error["data"]["code"]) == (-32603, "AwrError")
        assert error["message"].startswith("AWR has a fault: ValueError in test_app.py line ")
        assert "sentinel" not in answer.text

    served.run(act)
    line = served.lines()[-1]
    assert (line["tool"], line["outcome"], line["project"]) == ("awr_session_list", "fault", "alpha")
    assert 'awr_mcp_calls_total{tool="awr_session_list",outcome="fault"} 1' in served.watch.metrics.text()
    assert "awr_mcp_calls_in_flight 0\n" in served.watch.metrics.text()


def test_a_fault_of_the_application_is_a_report_without_its_words(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.application.manager, "handle_request", sentinel)

    async def act(http: httpx2.AsyncClient) -> None:
        answer = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL})
        assert answer.status_code == 500
        assert answer.json()["message"].startswith("AWR has a fault: ValueError in test_app.py line ")
        assert "sentinel" not in answer.text

    served.run(act)
    assert served.lines()[-1]["outcome"] == "fault"
    assert 'awr_http_refusals_total{status="500"} 1' in served.watch.metrics.text()


def test_every_call_is_counted_once_and_has_one_line(served: Served) -> None:
    async def act(http: httpx2.AsyncClient) -> None:
        for _ in range(3):
            answer = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL})
            assert answer.status_code == 200
        await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        await http.get("/mcp", headers={"Authorization": ""})

    served.run(act)
    assert [line["outcome"] for line in served.lines()] == ["ok", "ok", "ok", "ok", "http_401"]
    text = served.watch.metrics.text()
    assert 'awr_mcp_calls_total{tool="awr_session_list",outcome="ok"} 3' in text
    assert 'awr_mcp_call_duration_seconds_count{access="read"} 3' in text
    assert 'awr_http_refusals_total{status="401"} 1' in text


def test_a_duration_is_counted_in_its_bucket_and_every_larger_one() -> None:
    metrics = Metrics()
    for seconds in (0.0, BUCKETS[2], BUCKETS[-1] + 1):
        metrics.begin()
        metrics.end("awr_search", outcome="ok", access="read", seconds=seconds)
    shown = [line for line in metrics.text().splitlines() if "_bucket" in line and 'access="read"' in line]
    assert [int(line.split()[1]) for line in shown] == [1, 1, *[2] * (len(BUCKETS) - 2), 3]


def test_labels_come_from_lists_of_our_own() -> None:
    metrics = Metrics()
    metrics.begin()
    metrics.end("awr_search", outcome='sentinel"} 1', access="read", seconds=0.1)
    metrics.protocol_error(5)
    assert 'outcome="other"' in metrics.text()
    assert 'awr_mcp_protocol_errors_total{code="other"} 1' in metrics.text()
    assert "sentinel" not in metrics.text()
    assert {"ok", "fault", "invalid_params", "RuleViolation", "MutationConflict"} <= OUTCOMES


def test_a_log_that_cannot_be_written_disturbs_nobody() -> None:
    class Broken(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    closed = io.StringIO()
    closed.close()
    for stream in (Broken(), closed):
        Log(stream).line(event="call")


def test_a_library_that_complains_is_named_and_not_quoted() -> None:
    stream = io.StringIO()
    logger = logging.Logger("some.library")
    logger.addHandler(Faults(Log(stream)))
    try:
        sentinel()
    except ValueError:
        logger.exception("sentinel %s", "sentinel")
    logger.warning("sentinel")
    logger.info("sentinel")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(one["logger"], one["level"], one["exception"]) for one in lines] == [
        ("some.library", "error", "ValueError"),
        ("some.library", "warning", None),
    ]
    assert "sentinel" not in stream.getvalue()
