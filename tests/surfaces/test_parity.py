"""Every operation through all its doors on the same fixture gives the same answer, but for the documented metadata.

The doors: the operation itself, the command line, the stdio server through the SDK's own client, and the shared
service over HTTP. Each works on its own copy of one project, so ids and times that a write makes are masked.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import click
import msgspec
import pytest
from mcp import Client

from awr.operations.calling import call as call_operation
from awr.operations.definition import Operation
from awr.operations.requests import convert_request
from awr.project import Project
from awr.surfaces.cli.app import program
from awr.surfaces.cli.commands import OperationCommand, Settings
from awr.surfaces.mcp.catalogue import TOOLS, AgentTool, field_names, tool_schema
from awr.surfaces.mcp.server import Gate, build_server
from awr.surfaces.mcp.stdio import OneProject
from tests.support.cli import call
from tests.support.contexts import make_context_project
from tests.support.owning import ARGUMENTS, Owned, own
from tests.support.projects import revision
from tests.support.service import Agent, registry_text, serving
from tests.support.team import LEDGER
from tests.support.tools import use

#: Where a read came from and what was done for it: the one thing in which doors may differ.
METADATA = {
    *("freshness_basis", "source_refresh_performed", "read_only", "snapshot", "source_issues", "source_warnings"),
}
#: The shared service's client, which the local doors act as as well.
CLIENT = "stdio"


class LocalAgent:
    """Makes the fixture's records through the local door."""

    client = "ada"

    def __init__(self, project: Project) -> None:
        self._project = project

    def call(self, tool: str, /, **arguments: Any) -> LocalAgent:
        arguments.pop("project", None)
        answer = use(self._project, tool, **arguments)
        assert answer.error is None, (tool, answer)
        self._value = answer.body()
        return self

    def value(self) -> dict[str, Any]:
        return self._value


class Fixture(msgspec.Struct, frozen=True):
    """A project with one record of each kind: as it is while a wait is open, and after its answer."""

    waiting: Path
    answered: Path
    owned: Owned
    served: Path
    agent: Any


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fixture]:
    folder = tmp_path_factory.mktemp("parity")
    project = make_context_project(folder / "project", ledger=LEDGER)
    owned = own(LocalAgent(project), "p")  # type: ignore[arg-type]  # it calls tools, by another way
    waiting = shutil.copytree(project.root, folder / "waiting")
    replied = use(project, "awr_session_reply", wait=owned.wait, reply="Yes", expected_revision=revision(project))
    assert replied.error is None
    answered = shutil.copytree(project.root, folder / "answered")
    registry = folder / "service.toml"
    registry.write_text(registry_text({"p": project}, {CLIENT: {"write": ["p"]}}))
    with serving(registry, clients=(CLIENT,)) as running, Agent(running, CLIENT) as agent:
        yield Fixture(waiting, answered, owned, project.root, agent)


def copies(fixture: Fixture, tool: str, tmp_path: Path) -> Iterator[Project]:
    source = fixture.waiting if tool == "awr_session_reply" else fixture.answered
    number = 0
    while True:
        number += 1
        yield Project.open(shutil.copytree(source, tmp_path / f"copy-{number}"))


def reset(fixture: Fixture, tool: str) -> None:
    """Put the served project back to where every copy starts; its folder stays the same one."""
    source = fixture.waiting if tool == "awr_session_reply" else fixture.answered
    for path in fixture.served.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(source, fixture.served, dirs_exist_ok=True)


_ID = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b")
_HASH = re.compile(r"\b[0-9a-f]{64}\b")


def masked(value: Any, key: str = "") -> Any:
    """Hide what differs between two runs of the same thing: new ids, times, hashes over them, and their tokens."""
    if isinstance(value, dict):
        return {name: masked(item, name) for name, item in value.items() if name not in METADATA}
    if isinstance(value, int) and key in {"token_estimate", "required_tokens", "tokens"}:
        # A new session's id stands in the text, and how many tokens an id has depends on its characters.
        return "<tokens>"
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    if isinstance(value, str):
        return _HASH.sub("<hash>", _ID.sub("<id>", value))
    return "<time>" if isinstance(value, int) and value > 10**12 else value


def by_operation(project: Project, operation: Operation, arguments: dict[str, Any]) -> Any:
    fields = {name: value for name, value in arguments.items() if name in field_names(operation)}
    if "client" in field_names(operation):
        fields["client"] = CLIENT
    request = convert_request(fields, operation.request_type(), what="the request")
    return call_operation(operation, project, request).body()


def by_command(
    capsys: pytest.CaptureFixture[str], project: Project, operation: Operation, arguments: dict[str, Any]
) -> Any:
    words = ["--json", "--project", str(project.root), *operation.command.split()]
    if operation.input_file:
        body = {name: value for name, value in arguments.items() if name in field_names(operation)}
        (project.root / "input.json").write_text(json.dumps(body))
        words += ["--input", "input.json"]
        arguments = {name: value for name, value in arguments.items() if name == "request_id"}
    done = call(capsys, *words, *_typed(operation, arguments))
    if done.code == 0:
        return json.loads(done.out)
    report = json.loads(done.err)
    return {**json.loads(done.out), "ok": False, "error": report} if done.out else report


def _typed(operation: Operation, arguments: dict[str, Any]) -> list[str]:
    command: click.Command = program()
    context = click.Context(command, obj=Settings())
    for word in operation.command.split():
        assert isinstance(command, click.Group)
        found = command.get_command(context, word)
        assert found is not None
        command = found
    assert isinstance(command, OperationCommand)
    options: list[str] = []
    positional: list[str] = []
    for parameter in command.get_params(context):
        value = CLIENT if parameter.name == "client" else arguments.get(str(parameter.name))
        if value is None:
            continue
        values = value if isinstance(value, list) else [value]
        texts = [json.dumps(one) if isinstance(one, dict) else str(one) for one in values]
        if isinstance(parameter, click.Argument):
            positional += texts
        elif value is True:
            options.append(parameter.opts[0])
        else:
            options += [word for text in texts for word in (parameter.opts[0], text)]
    return [*options, "--", *positional] if positional else options


def by_stdio(project: Project, tool: str, arguments: dict[str, Any]) -> Any:
    async def main() -> Any:
        async with Client(build_server(OneProject(project.root), Gate())) as client:
            return (await client.call_tool(tool, arguments)).structured_content

    return anyio.run(main)


def by_http(fixture: Fixture, tool: str, arguments: dict[str, Any]) -> Any:
    reset(fixture, tool)
    return fixture.agent.call(tool, project="p", **arguments).result()


each = pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)


def given(fixture: Fixture, tool: AgentTool, project: Project) -> tuple[Operation, dict[str, Any]]:
    arguments = {name: value for name, value in ARGUMENTS[tool.name](fixture.owned).items() if name != "project"}
    operation = tool.operation(arguments.get("action"))
    assert operation is not None
    if "expected_revision" in tool_schema(tool.name)["properties"]:
        arguments["expected_revision"] = revision(project)
    return operation, arguments


@each
def test_the_same_call_gives_the_same_answer_through_every_local_door(
    fixture: Fixture, capsys: pytest.CaptureFixture[str], tmp_path: Path, tool: AgentTool
) -> None:
    project = copies(fixture, tool.name, tmp_path)
    own_way = next(project)
    operation, arguments = given(fixture, tool, own_way)
    first = masked(by_operation(own_way, operation, arguments))
    assert masked(by_command(capsys, next(project), operation, arguments)) == first
    assert masked(by_stdio(next(project), tool.name, arguments)) == first


@each
def test_the_same_named_call_gives_the_same_answer_on_the_command_line_on_stdio_and_over_http(
    fixture: Fixture, capsys: pytest.CaptureFixture[str], tmp_path: Path, tool: AgentTool
) -> None:
    project = copies(fixture, tool.name, tmp_path)
    here = next(project)
    operation, arguments = given(fixture, tool, here)
    if tool.identified:
        arguments["request_id"] = "the-request"
    typed = masked(by_command(capsys, here, operation, arguments))
    sent = masked(by_stdio(next(project), tool.name, arguments))
    served = masked(by_http(fixture, tool.name, arguments))
    assert served == sent
    if "message" in typed:
        # A command that was refused prints the report; the tools put the receipt beside it.
        assert typed == {name: sent[name] for name in ("code", "message", "details") if name in sent}
    else:
        assert typed == sent


def test_most_tools_are_compared_where_they_succeed(fixture: Fixture, tmp_path: Path) -> None:
    refused = set()
    for name, tool in TOOLS.items():
        project = next(copies(fixture, name, tmp_path / name))
        _, arguments = given(fixture, tool, project)
        if use(project, name, **arguments).error is not None:
            refused.add(name)
    assert refused <= {
        # What each needs of the project's state is not there: an interrupted write, a draft, a report.
        *("awr_proposal_recover", "awr_work_activate", "awr_completion_prepare"),
        # The work is claimed by the session already.
        "awr_session_claim",
    }
