"""The MCP Inspector's command line, which nobody here wrote, drives both servers from end to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awr.project import Project
from awr.surfaces.mcp.catalogue import DOMAINS, TOOLS
from tests.support.npm import INSPECTOR, installed
from tests.support.projects import make_project, revision
from tests.support.service import token_of
from tests.support.team import Team, served_team
from tests.support.tools import break_finishing, event_types, mend_finishing

FLAT = ("-e", "AWR_MCP_TOOL_EXPOSURE_MODE=flat")


class Said(msgspec.Struct, frozen=True):
    """What the Inspector printed, and its exit code."""

    code: int
    out: str
    err: str

    def value(self) -> Any:
        """Return the answer of a call that worked."""
        assert self.code == 0, self
        return json.loads(self.out)

    def body(self) -> dict[str, Any]:
        """Return a tool's own object, whether it is a refusal or not."""
        found: dict[str, Any] = json.loads(self.out)["structuredContent"]
        return found


class Inspector:
    """Runs the Inspector against one server."""

    def __init__(self, program: Path, target: list[str], home: Path) -> None:
        self._program = program
        self._target = target
        self._home = home

    def __call__(self, *words: str) -> Said:
        done = subprocess.run(
            [str(self._program), "--cli", *self._target, *words],
            env={**os.environ, "HOME": str(self._home), "MCP_CATALOG_PATH": str(self._home / "catalog.json")},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def call(self, tool: str, *words: str, **arguments: Any) -> Said:
        pairs = [f"{name}={one if isinstance(one, str) else json.dumps(one)}" for name, one in arguments.items()]
        return self("--method", "tools/call", "--tool-name", tool, "--tool-arg", *pairs, *words)


@pytest.fixture(scope="module")
def program() -> Path:
    return installed(INSPECTOR) / "mcp-inspector"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")


@pytest.fixture
def stdio(program: Path, project: Project, home_folder: Path) -> Inspector:
    command = [sys.executable, "-m", "awr.surfaces.mcp.main", "--project", str(project.root)]
    return Inspector(program, command, home_folder)


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with served_team(tmp_path_factory.mktemp("inspected")) as found:
        yield found


@pytest.fixture
def http(program: Path, team: Team, home_folder: Path) -> Inspector:
    authorization = f"Authorization: Bearer {token_of('ada')}"
    return Inspector(program, ["--server-url", team.running.url, "--header", authorization], home_folder)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_groups_are_listed_on_stdio_in_both_eras(stdio: Inspector, era: str) -> None:
    found = stdio("--method", "tools/list", "--protocol-era", era).value()
    assert [tool["name"] for tool in found["tools"]] == list(DOMAINS)


def test_the_flat_schemas_have_nothing_that_a_client_could_not_take(stdio: Inspector) -> None:
    said = stdio("--method", "tools/list", "--strict", *FLAT)
    assert {tool["name"] for tool in said.value()["tools"]} == set(TOOLS)
    assert "Warning" not in said.err
    assert "Error" not in said.err


def test_a_group_is_discovered_and_one_of_its_tools_called(stdio: Inspector) -> None:
    manifest = stdio("--method", "tools/call", "--tool-name", "awr_query").value()["structuredContent"]
    assert manifest["child_total"] == len(manifest["children"])
    said = stdio.call("awr_query", child_tool="awr_project_status", arguments={"view": "summary"})
    assert said.body()["total"] == 3


def test_a_write_is_made_repeated_refused_and_recovered_on_stdio(project: Project, stdio: Inspector) -> None:
    note = {"event_type": "note.added", "summary": "A note", "expected_revision": 2, "request_id": "r"}
    first, again = (stdio.call("awr_event_append", *FLAT, **note).body() for _ in range(2))
    assert (first["operation"]["replayed"], again["operation"]["replayed"]) == (False, True)
    refused = stdio.call("awr_event_append", *FLAT, **{**note, "request_id": "s"})
    assert refused.code != 0
    assert refused.body()["code"] == "RevisionConflict"
    break_finishing(project.journal.path)
    lost = stdio.call("awr_event_append", *FLAT, **{**note, "request_id": "lost", "expected_revision": 5})
    assert lost.body()["write_outcome"] == "unknown"
    mend_finishing(project.journal.path)
    assert stdio.call("awr_operation_get", *FLAT, request_id="lost").body()["outcome"] == "unknown"
    settled = stdio.call("awr_operation_recover", *FLAT, request_id="lost", expected_revision=revision(project))
    assert settled.body()["write_outcome"] == "committed"
    assert event_types(project).count("note.added") == 2


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_shared_service_is_listed_and_called_in_both_eras(http: Inspector, era: str) -> None:
    listed = http("--method", "tools/list", "--protocol-era", era)
    assert [tool["name"] for tool in listed.value()["tools"]] == ["awr_projects_list", *DOMAINS]
    projects = http("--method", "tools/call", "--tool-name", "awr_projects_list", "--protocol-era", era)
    assert [one["key"] for one in projects.body()["projects"]] == ["alpha", "beta"]
    assert token_of("ada") not in listed.out + listed.err + projects.out + projects.err


def test_a_write_is_made_repeated_and_refused_on_the_shared_service(team: Team, http: Inspector) -> None:
    now = revision(team.projects["alpha"])
    note = {"event_type": "note.added", "summary": "A note", "expected_revision": now, "request_id": "inspector"}

    def append(project: str, **arguments: Any) -> Said:
        return http.call("awr_evidence", project=project, child_tool="awr_event_append", arguments=arguments)

    first, again = append("alpha", **note).body(), append("alpha", **note).body()
    assert (first["operation"]["replayed"], again["operation"]["replayed"]) == (False, True)
    refused = append("gamma", **note)
    assert refused.code != 0
    assert refused.body()["code"] == "RuleViolation"
    found = http.call(
        "awr_continuity", project="alpha", child_tool="awr_operation_get", arguments={"request_id": "inspector"}
    )
    assert found.body()["outcome"] == "recorded"


def test_without_a_token_nothing_is_listed(program: Path, team: Team, home_folder: Path) -> None:
    said = Inspector(program, ["--server-url", team.running.url], home_folder)("--method", "tools/list")
    assert said.code != 0
    assert "awr_query" not in said.out
