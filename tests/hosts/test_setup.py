"""What the page about connecting an agent says, done with the real hosts and a stand-in for the model."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from awr.project import Project
from tests.docs.console import ROOT
from tests.support.npm import CLAUDE_CODE, CODEX, installed
from tests.support.projects import make_project
from tests.support.stub_model import stub_model

PAGE = (ROOT / "docs" / "how-to" / "connect-an-agent.md").read_text()
STATUS = {"child_tool": "awr_project_status", "arguments": {"view": "summary"}}


def section(title: str) -> str:
    """Return one section of the page."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def block(title: str, language: str, number: int = 0) -> str:
    """Return one code block of a section."""
    found: str = re.findall(rf"```{language}\n(.*?)```", section(title), re.DOTALL)[number]
    return found


def test_the_page_names_the_versions_that_are_tested() -> None:
    assert f"tested with {CLAUDE_CODE.rpartition('@')[2]}" in section("Claude Code")
    assert f"Tested with {CODEX.rpartition('@')[2]}" in section("Codex")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")


@pytest.fixture
def environment(home_folder: Path) -> dict[str, str]:
    """Only what a host needs: nothing of the caller's settings, no updates, no telemetry, a dummy key."""
    (home_folder / ".codex").mkdir()
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home_folder),
        "CLAUDE_CONFIG_DIR": str(home_folder / ".claude"),
        "CODEX_HOME": str(home_folder / ".codex"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "ANTHROPIC_API_KEY": "no-key",
        "STUB_KEY": "no-key",
        "AWR_TOKEN": "no-token",
    }


def binary(package: str, pattern: str) -> Path:
    """Return a host's own program, without the script of npm around it."""
    return next((installed(package).parent).glob(pattern))


def typed(line: str, *, program: Path, project: Project) -> list[str]:
    """Return the words of a line of the page, with the host's program in the place of its name."""
    words = shlex.split(line.replace("$PWD", str(project.root)).replace("${AWR_TOKEN}", "no-token"))
    return [str(program), *words[1:]]


def run(words: list[str], project: Project, environment: dict[str, str]) -> str:
    """Run a host's command in the project and return what it said."""
    done = subprocess.run(
        words,
        cwd=project.root,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def require_answer(results: list[str], project: Project) -> None:
    """Check that the tool's answer, as the model got it, is this project's."""
    assert len(results) == 1, results
    with project.journal.read() as reader:
        assert reader.project_id in results[0]
    assert "source_verified_readonly" in results[0]


def test_claude_code_connects_and_calls_a_tool(project: Project, environment: dict[str, str]) -> None:
    claude = binary(CLAUDE_CODE, "@anthropic-ai/claude-code-*/claude")
    run(typed(block("Claude Code", "sh"), program=claude, project=project), project, environment)
    assert re.search(r"^awr: .*✔ Connected$", run([str(claude), "mcp", "list"], project, environment), re.MULTILINE)
    waiting = dict(word.split("=") for word in block("Claude Code", "sh", 1).split()[1:])
    with stub_model(tool="awr_query", arguments=STATUS) as model:
        own = {**environment, **waiting, "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.port}"}
        run([str(claude), "-p", "go", "--allowedTools", "mcp__awr__awr_query"], project, own)
    assert "mcp__awr__awr_query" in model.offered
    require_answer(model.results, project)


def test_claude_code_shares_the_set_up_in_a_file_of_the_project(
    project: Project, environment: dict[str, str]
) -> None:
    claude = binary(CLAUDE_CODE, "@anthropic-ai/claude-code-*/claude")
    words = typed(block("Claude Code", "sh"), program=claude, project=project)
    words[3:3] = ["--scope", "project"]
    run(words, project, environment)
    shared = json.loads((project.root / ".mcp.json").read_text())["mcpServers"]["awr"]
    assert (shared["command"], shared["args"]) == ("awr-mcp", ["--project", str(project.root)])


def test_claude_code_takes_the_shared_service(project: Project, environment: dict[str, str]) -> None:
    claude = binary(CLAUDE_CODE, "@anthropic-ai/claude-code-*/claude")
    run(typed(block("Claude Code", "sh", 2), program=claude, project=project), project, environment)
    said = run([str(claude), "mcp", "get", "awr"], project, environment)
    assert "Type: http" in said
    assert "URL: http://127.0.0.1:8080/mcp" in said


def test_codex_has_the_tools_from_the_first_request_and_calls_one(
    project: Project, environment: dict[str, str]
) -> None:
    codex = binary(CODEX, "@openai/codex-*/vendor/*/bin/codex")
    config = Path(environment["CODEX_HOME"]) / "config.toml"
    with stub_model(tool="awr_query", arguments=STATUS) as model:
        config.write_text(
            f"""\
model = "stub"
model_provider = "stub"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.stub]
name = "stub"
base_url = "http://127.0.0.1:{model.port}/v1"
wire_api = "responses"
env_key = "STUB_KEY"
request_max_retries = 0
stream_max_retries = 0
"""
        )
        run(typed(block("Codex", "sh"), program=codex, project=project), project, environment)
        with config.open("a") as file:
            file.write("required = true\nstartup_timeout_sec = 60\n")
        shown = tomllib.loads(block("Codex", "toml"))["mcp_servers"]
        wanted = {**shown["awr"], "args": ["--project", str(project.root)]}
        assert tomllib.loads(config.read_text())["mcp_servers"] == {"awr": wanted}
        assert "transport: stdio" in run([str(codex), "mcp", "get", "awr"], project, environment)
        run([str(codex), "exec", "--skip-git-repo-check", "go"], project, environment)
    require_answer(model.results, project)


def test_codex_takes_the_shared_service(project: Project, environment: dict[str, str]) -> None:
    codex = binary(CODEX, "@openai/codex-*/vendor/*/bin/codex")
    run(typed(block("Codex", "sh", 1), program=codex, project=project), project, environment)
    config = tomllib.loads((Path(environment["CODEX_HOME"]) / "config.toml").read_text())
    assert config["mcp_servers"]["awr"] == {"url": "http://127.0.0.1:8080/mcp", "bearer_token_env_var": "AWR_TOKEN"}


@pytest.mark.parametrize("title", ["Cursor", "Any other MCP client"])
def test_the_command_that_a_configuration_names_serves_the_project(
    project: Project, environment: dict[str, str], title: str
) -> None:
    named: dict[str, Any] = json.loads(block(title, "json"))["mcpServers"]["awr"]
    assert named.get("type", "stdio") == "stdio"
    words = [word.replace("/path/to/project", str(project.root)) for word in named["args"]]

    async def main() -> None:
        server = StdioServerParameters(command=named["command"], args=words, env=environment)
        async with Client(stdio_client(server), mode="legacy") as client:
            answer = await client.call_tool("awr_query", STATUS)
            assert not answer.is_error

    anyio.run(main)
