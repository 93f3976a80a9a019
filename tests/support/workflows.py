"""Workflows on real projects, through both transports, and a program that answers like an older build of AWR."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from awr.client import ExecutableTransport, Workflow
from awr.client.transport import Transport
from awr.project import Project
from tests.support.contexts import make_context_project
from tests.support.projects import LEDGER

__all__ = [
    "LABELS",
    "SHA",
    "VERSION",
    "acknowledged",
    "begun",
    "completion",
    "evidence_draft",
    "make_program",
    "make_workflow_project",
    "observation",
    "older_build",
    "pinned",
    "program",
    "project_id",
    "started",
    "state_of",
    "work_observation",
    "workflow_on",
]

VERSION = version("awr")
SHA = "c0ffee" * 6 + "c0ff"
LABELS = ("tester", "provider", "model")

#: Answers like a build of AWR that lacks some capabilities: it does not list them, and it knows neither their
#: commands nor their options. All else is done by the AWR at hand. Where `fails` names a command, the program does
#: what it is asked and then, once, fails to say so: it is killed, or it hangs until somebody kills it.
_OLDER_BUILD = """\
#!{python}
import contextlib, io, json, os, signal, sys
from pathlib import Path
from awr.surfaces.cli.app import run

LACKING, FAILS, HOW, ONCE, LOG = {lacking!r}, {fails!r}, {how!r}, Path({once!r}), Path({log!r})
COMMANDS = {{"workflow.prepare": "work prepare", "work.management": "work manage",
            "client.compaction": "session compaction"}}
VIEWS = {{"workflow.action_guidance": "action", "workflow.response_summary": "summary"}}

def refuse(code, exit_code):
    print(json.dumps({{"code": code, "message": "an older build"}}), file=sys.stderr)
    sys.exit(exit_code)

words = " ".join(sys.argv[4:])
with LOG.open("a") as log:
    log.write(words + "\\n")
for capability in LACKING:
    if words.startswith(COMMANDS.get(capability, "\\0")):
        refuse("Unsupported", 1)
    if "--response-view=" + VIEWS.get(capability, "\\0") in words:
        refuse("InvalidInput", 2)
if words.startswith("capabilities"):
    given = [word.partition("=")[2] for word in sys.argv if word.startswith("--require=")]
    if set(given) & set(LACKING):
        refuse("CapabilityUnavailable", 1)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        run(sys.argv[1:])
    found = json.loads(out.getvalue())
    found["capabilities"] = [one for one in found["capabilities"] if one["id"] not in LACKING]
    found["program"]["version"] = {version!r}
    print(json.dumps(found))
    sys.exit(0)
failing = FAILS and words.startswith(FAILS) and not ONCE.exists()
if failing:
    with contextlib.redirect_stdout(io.StringIO()):
        code = run(sys.argv[1:])
    ONCE.touch()
    if HOW == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    os.read(os.pipe()[0], 1)
sys.exit(run(sys.argv[1:]))
"""


def make_workflow_project(folder: Path) -> Project:
    """Make a project whose context is complete: revision 2."""
    return make_context_project(folder, ledger=LEDGER, rules=None, profile="minimal")


def project_id(project: Project) -> str:
    """Return the project's id."""
    with project.journal.read() as reader:
        return reader.project_id


def make_program(path: Path) -> Path:
    """Write a small program that starts the AWR under test."""
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m awr "$@"\n')
    path.chmod(0o700)
    return path


def older_build(
    path: Path, *, lacking: tuple[str, ...] = (), fails: str = "", how: str = "killed", stated: str = VERSION
) -> Path:
    """Write a program that answers like an older build; its calls are listed in `<path>.log`."""
    once, log = path.with_suffix(".once"), path.with_suffix(".log")
    path.write_text(
        _OLDER_BUILD.format(
            python=sys.executable,
            lacking=lacking,
            fails=fails,
            how=how,
            once=str(once),
            log=str(log),
            version=stated,
        )
    )
    path.chmod(0o700)
    return path


def pinned(program: Path, *, stated: str = VERSION, timeout: float = 60.0) -> ExecutableTransport:
    """Return a transport through a program, pinned as it is now."""
    return ExecutableTransport(
        program, sha256=hashlib.sha256(program.read_bytes()).hexdigest(), version=stated, timeout=timeout
    )


def program(kind: str, folder: Path) -> Transport | None:
    """Return the transport of one kind: None is the default, in this process."""
    return None if kind == "in_process" else pinned(make_program(folder / "awr"))


def workflow_on(project: Project, *, transport: Transport | None = None, name: str = "state") -> Workflow:
    """Open a workflow whose state lies beside the project."""
    state = project.root.parent / name / "workflow.json"
    return Workflow(project.root, project_id=project_id(project), state=state, transport=transport)


def started(folder: Path, *, transport: Transport | None = None) -> tuple[Project, Workflow]:
    """Make a project and open a workflow on it."""
    project = make_workflow_project(folder / "p")
    return project, workflow_on(project, transport=transport)


def begun(folder: Path, *, transport: Transport | None = None) -> tuple[Project, Workflow]:
    """Make a project and begin a session on its first work."""
    project, workflow = started(folder, transport=transport)
    workflow.begin("parse", *LABELS)
    return project, workflow


def acknowledged(workflow: Workflow) -> str:
    """Fetch the context, acknowledge it and return its hash."""
    found: str = workflow.context()["work_context"]["context_hash"]
    workflow.acknowledge(found)
    return found


def state_of(project: Project, name: str = "state") -> dict[str, Any]:
    """Return what the state file says."""
    found: dict[str, Any] = json.loads((project.root.parent / name / "workflow.json").read_bytes())
    return found


def observation(number: int = 1, *, after: int = 140_000) -> dict[str, Any]:
    """Return a completed compaction as a host measures it."""
    return {
        "compaction_id": f"native-compaction-{number}",
        "sequence": number,
        "observed_at": 1_789_500_000_000 + number,
        "trigger": "automatic",
        "model": "host-model-id",
        "source": f"host.telemetry.completed-compaction-{number}",
        "measurement_scope": "full_request",
        "measurement_basis": "host_reported",
        "before_tokens": 230_000,
        "after_tokens": after,
        "context_window_tokens": 256_000,
    }


def work_observation(**fields: Any) -> dict[str, Any]:
    """Return what a host observed about a piece of work."""
    known = {
        "single_outcome": True,
        "bounded_scope": True,
        "single_executor": True,
        "no_deferred_wait": True,
        "independently_schedulable_units": 1,
        "plan_valid": True,
        "outcome_known": True,
    }
    return {"observed_at": 1_789_500_000_000, "note": "one outcome in one module", **known, **fields}


def evidence_draft(project: Project, key: str = "samples-1") -> dict[str, Any]:
    """Write a report of the first work's criterion and return the draft of its evidence."""
    report = project.root / "reports" / "samples.json"
    report.parent.mkdir(exist_ok=True)
    body = {
        "version": 1,
        "work_item": "parse",
        "source_sha": SHA,
        "command": "make samples",
        "scope": ["parser"],
        "verified_at": 1_789_500_000_000,
        "checks": [
            {"name": "samples", "passed": True, "details": "all parse", "criteria": ["Every sample parses"]},
        ],
    }
    report.write_text(json.dumps(body))
    return {
        "external_key": key,
        "evidence_type": "test_report",
        "level": "locally_verified",
        "summary": "Every sample parses",
        "locator": "reports/samples.json",
        "scope": ["parser"],
        "sha256": hashlib.sha256(report.read_bytes()).hexdigest(),
        "source_sha": SHA,
        "command": "make samples",
        "verified_at": 1_789_500_000_000,
    }


def completion(key: str = "samples-1") -> dict[str, Any]:
    """Return a completion that maps the first work's criterion to one evidence."""
    return {
        "version": 1,
        "source_sha": SHA,
        "acceptance": [{"criterion": "Every sample parses", "evidence": [key]}],
    }
