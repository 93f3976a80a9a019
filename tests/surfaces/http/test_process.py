"""Starting and ending the service: what is said, where, and with which exit code."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awr.errors import InvalidInput
from awr.surfaces.http.listening import address_of, listen_on
from tests.support.projects import make_project
from tests.support.service import registry_text, serving, token_of
from tests.support.team import Serve

AWR_MCP = (sys.executable, "-m", "awr.surfaces.mcp.main")
AWR_SERVE = (sys.executable, "-m", "awr", "--json", "serve")


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    projects = {"alpha": make_project(tmp_path / "alpha")}
    path = tmp_path / "service.toml"
    path.write_text(registry_text(projects, {"ada": {"read": ["alpha"]}}))
    return path


def run(*arguments: str | Path, token: str | None = token_of("ada")) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONWARNINGS": "error", **({"TOKEN_ada": token} if token else {})}
    return subprocess.run(
        list(map(str, arguments)), env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def report(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the one error report on standard error."""
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done
    found: dict[str, Any] = json.loads(done.stderr)
    assert {"code", "message"} <= found.keys() <= {"code", "message", "details"}
    return found


@pytest.mark.parametrize("program", [AWR_MCP, AWR_SERVE], ids=["awr-mcp", "awr serve"])
def test_a_registry_that_is_wrong_ends_with_one_report_and_without_its_token(
    registry: Path, program: tuple[str, ...]
) -> None:
    short = "sh0rt-s3cret"
    done = run(*program, "--registry", registry, "--listen", "127.0.0.1:0", token=short)
    assert report(done)["code"] == "InvalidInput"
    assert short not in done.stderr


def test_a_registry_that_is_missing_is_not_found(tmp_path: Path) -> None:
    assert report(run(*AWR_MCP, "--registry", tmp_path / "none.toml"))["code"] == "NotFound"


@pytest.mark.parametrize(
    "listen",
    ["", "8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "::1:8080", "[127.0.0.1", "http://x:1", "a b:1"],
)
def test_what_is_no_address_is_refused_without_being_repeated(registry: Path, listen: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        listen_on(listen)
    details = refused.value.details
    assert (details["got"], details["next_step"]) == ("another form", "give --listen 127.0.0.1:8080")


def test_an_address_in_use_is_refused_cleanly(registry: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(*AWR_MCP, "--registry", registry, "--listen", f"127.0.0.1:{port}")
    assert report(done)["code"] == "Io"


def test_an_address_of_another_machine_is_refused_cleanly(registry: Path) -> None:
    assert report(run(*AWR_MCP, "--registry", registry, "--listen", "192.0.2.1:0"))["code"] == "Io"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--listen", "127.0.0.1:0"),
        ("--project", ".", "--listen", "127.0.0.1:0"),
        ("--project", ".", "--registry", "x"),
        ("--registry",),
        ("--reg", "x"),
    ],
)
def test_a_wrong_call_ends_with_2(arguments: tuple[str, ...]) -> None:
    done = run(*AWR_MCP, *arguments)
    assert (done.returncode, done.stdout) == (2, "")


def test_awr_serve_without_a_registry_is_a_wrong_call() -> None:
    assert run(*AWR_SERVE).returncode == 2


def test_awr_serve_is_the_same_service(registry: Path) -> None:
    script = "import sys\nfrom awr.surfaces.cli.app import run\nsys.exit(run(['serve', *sys.argv[1:]]))\n"
    with serving(registry, clients=("ada",), script=script) as running:
        assert running.url.endswith("/mcp")
        assert running.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_service_with_0_and_one_line(serve: Serve, number: int) -> None:
    with serve() as team:
        assert team.running.stop(number) == 0
        assert team.running.errors() == f"AWR MCP listening at {team.running.url}\n"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(team.running.address, timeout=5)


def test_a_signal_ends_connections_that_say_nothing(serve: Serve) -> None:
    with serve() as team:
        idle = [socket.create_connection(team.running.address, timeout=20) for _ in range(3)]
        idle[1].sendall(b"POST /mcp HT")
        idle[2].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" in idle[2].recv(65536)
        assert team.running.stop() == 0
        for one in idle:
            one.close()


def listening(address: str) -> Callable[[], str]:
    def found() -> str:
        with listen_on(address) as listener:
            return address_of(listener)

    return found


@pytest.mark.skipif(not socket.has_ipv6, reason="there is no IPv6 here")
def test_an_ipv6_address_stands_in_brackets() -> None:
    try:
        shown = listening("[::1]:0")()
    except OSError:
        pytest.skip("there is no IPv6 loopback here")
    assert shown.startswith("[::1]:")
    assert not shown.endswith(":0")


def test_a_name_is_shown_as_the_address_it_stands_for() -> None:
    assert listening("localhost:0")().rpartition(":")[0] in {"127.0.0.1", "[::1]"}


def test_a_connection_is_known_for_tcp_so_that_answers_are_not_held_back() -> None:
    with listen_on("127.0.0.1:0") as listener, socket.create_connection(listener.getsockname()):
        taken, _ = listener.accept()
        with taken:
            assert (listener.proto, taken.proto) == (socket.IPPROTO_TCP, socket.IPPROTO_TCP)
