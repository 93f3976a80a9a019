"""`python -m awr.client.workflow`: the loop of a host, a step a command."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from awr.client.transport import CallFailed, WorkflowError
from awr.errors import AwrError
from awr.operations.requests import parse_json

if TYPE_CHECKING:
    from awr.client.workflow import Workflow

__all__ = ["STEPS", "main"]

Step = Callable[["Workflow", argparse.Namespace], dict[str, Any]]


def main(arguments: list[str]) -> int:
    """Carry out one step. Return 0, 1 when it was refused or got no answer, 2 for a wrong call."""
    try:
        given = _parser().parse_args(arguments)
    except SystemExit as leaving:
        return int(leaving.code or 0)
    # Run as a program, the module of the loop is called __main__: this is the same one under its own name.
    from awr.client.workflow import Workflow

    try:
        workflow = Workflow(
            project=given.project,
            project_id=given.project_id,
            state_path=given.state,
            binary=given.binary,
            sha256=given.sha256,
            version=given.version,
        )
        value = given.step(workflow, given)
    except CallFailed as failed:
        error = failed.report or {"code": "OutcomeUnknown", "message": str(failed)}
        return _refused({**error, "outcome_known": failed.known})
    except WorkflowError as error:
        return _refused({"code": "WorkflowError", "message": str(error)})
    except AwrError as error:
        return _refused(error.report())
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
    return 0


def _refused(error: dict[str, Any]) -> int:
    body = {"ok": False, "error": error, "automatic_retry": False}
    sys.stderr.write(json.dumps(body, ensure_ascii=False) + "\n")
    return 1


def _file(path: str | None) -> Any:
    if path is None:
        return None
    try:
        data = Path(path).read_bytes()
    except OSError:
        raise WorkflowError("the input file cannot be read") from None
    value = parse_json(data, what="the input")
    if not isinstance(value, dict):
        raise WorkflowError("the input file has to hold one JSON object")
    return value


def _observed(workflow: Workflow, given: argparse.Namespace) -> dict[str, Any]:
    body = _file(given.input)
    if not body.keys() <= {"observation", "policy", "expected_revision"} or "observation" not in body:
        raise WorkflowError("the input holds observation, and perhaps policy and expected_revision, and nothing else")
    return workflow.observe_compaction(**body)


#: Each step: what it does, its options as (name, keyword arguments of argparse), and how it is called.
_NEEDED: dict[str, Any] = {"required": True}
STEPS: dict[str, tuple[str, dict[str, dict[str, Any]], Step]] = {
    "begin": (
        "start a session for a work item and claim it",
        {"--work": _NEEDED, "--agent": _NEEDED, "--provider": _NEEDED, "--model": _NEEDED},
        lambda w, a: w.begin(a.work, a.agent, a.provider, a.model, a.expected_revision),
    ),
    "adopt": (
        "go on with an active session",
        {"--session": _NEEDED, "--work": _NEEDED},
        lambda w, a: w.adopt(a.session, a.work),
    ),
    "context": ("compile the required context", {}, lambda w, a: w.context()),
    "prepare": (
        "prepare the work and its one next action",
        {
            "--observation": {"metavar": "FILE"},
            "--goal": {"action": "append", "default": []},
            "--response-view": {"choices": ("full", "summary", "action"), "default": "action"},
        },
        lambda w, a: w.prepare(_file(a.observation), a.goal, a.response_view),
    ),
    "ack": (
        "attest that the delivered context was read",
        {"--consumed-hash": _NEEDED},
        lambda w, a: w.acknowledge(a.consumed_hash),
    ),
    "checkpoint": (
        "save where the session stands",
        {"--consumed-hash": _NEEDED, "--digest": _NEEDED, "--next-action": _NEEDED},
        lambda w, a: w.checkpoint(a.consumed_hash, a.digest, a.next_action, a.expected_revision),
    ),
    "progress": (
        "say how the work goes on",
        {"--reason": _NEEDED, "--next-action": _NEEDED},
        lambda w, a: w.progress(a.reason, a.next_action, a.expected_revision),
    ),
    "evidence": (
        "record how something was verified",
        {"--input": {**_NEEDED, "metavar": "FILE"}},
        lambda w, a: w.evidence(_file(a.input), a.expected_revision),
    ),
    "observe-compaction": (
        "record a completed native compaction",
        {"--input": {**_NEEDED, "metavar": "FILE"}},
        _observed,
    ),
    "compaction": (
        "look at the latest compaction",
        {"--include-observation": {"action": "store_true"}},
        lambda w, a: w.compaction(include_observation=a.include_observation),
    ),
    "defer-compaction": (
        "postpone the advice about the latest compaction",
        {"--observation-event-id": _NEEDED},
        lambda w, a: w.defer_compaction(a.observation_event_id, a.expected_revision),
    ),
    "finish": (
        "complete the work and end the session",
        {"--input": {**_NEEDED, "metavar": "FILE"}, "--reason": _NEEDED},
        lambda w, a: w.finish(_file(a.input), a.reason, a.expected_revision),
    ),
    "inspect": (
        "look at the project after a step that was refused or got no answer",
        {"--session": {}, "--work": {}},
        lambda w, a: w.inspect(a.session, a.work),
    ),
    "reconcile": (
        "settle a pending step by what the inspection showed",
        {"--inspection-sha256": _NEEDED, "--reason": _NEEDED, "--session": {}, "--work": {}},
        lambda w, a: w.reconcile(a.inspection_sha256, a.reason, a.session, a.work),
    ),
}
_READS = frozenset({"adopt", "context", "prepare", "ack", "observe-compaction", "compaction", "inspect", "reconcile"})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m awr.client.workflow",
        description="The loop of a host that embeds AWR. Every write is put down before it is sent, and sent once.",
        allow_abbrev=False,
    )
    parser.add_argument("--project", required=True, help="the project folder")
    parser.add_argument("--project-id", required=True, help="the id that awr status shows for it")
    parser.add_argument("--state", required=True, help="the file in which the loop remembers itself")
    parser.add_argument("--binary", help="an awr executable to run instead of this installation; absolute")
    parser.add_argument("--sha256", help="the executable's SHA-256")
    parser.add_argument("--version", help="the version the executable says it is")
    steps = parser.add_subparsers(required=True, metavar="STEP")
    for name, (text, options, step) in STEPS.items():
        command = steps.add_parser(name, help=text, description=text, allow_abbrev=False)
        for option, keywords in options.items():
            command.add_argument(option, **keywords)
        if name not in _READS:
            command.add_argument("--expected-revision", type=int, help="the last known one if left out")
        command.set_defaults(step=step)
    return parser
