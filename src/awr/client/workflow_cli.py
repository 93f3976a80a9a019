"""The workflow for programs that are not written in Python: `python -m awr.client.workflow`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from awr.client.executable import ExecutableTransport
from awr.client.transport import Transport
from awr.client.workflow import Workflow
from awr.domain.secrets import refuse_secrets
from awr.errors import AwrError, InvalidInput, NotFound, fault_of, io_error
from awr.operations.requests import decode_request, parse_json

__all__ = ["main", "parser"]

MAX_INPUT_BYTES = 1024 * 1024

Run = Callable[[Workflow, argparse.Namespace], dict[str, Any]]


class _Observed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The input of observe-compaction."""

    observation: dict[str, Any]
    policy: dict[str, Any] | None = None
    expected_revision: int | None = None


class _UsageError(Exception):
    """A wrong call. argparse repeats in its message what was typed, so the message goes no further."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _UsageError(self.prog)


def main(arguments: list[str]) -> int:
    """Run one command and return its exit code: 0, 1 for a refusal, 2 for a wrong call."""
    try:
        refuse_secrets(arguments, what="the command line")
        given = parser().parse_args(arguments)
        workflow = Workflow(
            given.project, project_id=given.project_id, state=given.state, transport=_transport(given)
        )
        run: Run = given.run
        found = run(workflow, given)
    except _UsageError as wrong:
        return _refuse(
            InvalidInput(
                "the command line is not one of this program",
                expected="the commands and options that its help names",
                next_step=f"run {wrong.args[0]} --help",
            ),
            exit_code=2,
        )
    except AwrError as error:
        return _refuse(error)
    except OSError as error:
        return _refuse(io_error(error))
    except Exception as error:
        return _refuse(fault_of(error))
    sys.stdout.write(_pretty(found))
    return 0


def _refuse(error: AwrError, *, exit_code: int = 1) -> int:
    sys.stderr.write(_pretty({"ok": False, "error": error.report(), "automatic_retry": False}))
    return exit_code


def _pretty(value: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def _transport(given: argparse.Namespace) -> Transport | None:
    pins = (given.binary, given.sha256, given.version)
    if all(pin is None for pin in pins):
        return None
    if any(pin is None for pin in pins):
        raise _UsageError("python -m awr.client.workflow")
    return ExecutableTransport(given.binary, sha256=given.sha256, version=given.version)


def _json(name: str) -> dict[str, Any]:
    found = parse_json(_bytes(name), what="the input")
    if isinstance(found, dict):
        return found
    raise InvalidInput("the input is not an object", expected="one JSON object", next_step="correct the file")


def _bytes(name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            data = file.read(MAX_INPUT_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(
            "the input file does not exist",
            expected="a JSON file; its path counts from the present folder",
            next_step="check the path that was given",
        ) from None
    if len(data) > MAX_INPUT_BYTES:
        raise InvalidInput(
            "the input is too large",
            got=f"more than {MAX_INPUT_BYTES} bytes",
            expected=f"at most {MAX_INPUT_BYTES} bytes",
            next_step="keep the bulk in a report and name it",
        )
    return data


def _observe(workflow: Workflow, given: argparse.Namespace) -> dict[str, Any]:
    told = decode_request(_bytes(given.input), _Observed, what="the input")
    return workflow.observe_compaction(told.observation, told.policy, told.expected_revision)


def _prepare(workflow: Workflow, given: argparse.Namespace) -> dict[str, Any]:
    observation = None if given.observation is None else _json(given.observation)
    return workflow.prepare(observation, given.goal, given.response_view)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    program = _Parser(prog="python -m awr.client.workflow", description="One agent's session, driven by a host.")
    program.add_argument("--project", required=True, help="The project folder.")
    program.add_argument("--project-id", required=True, help="The id that the project must have.")
    program.add_argument("--state", required=True, help="The state file, in a private folder of its own.")
    program.add_argument("--binary", help="An awr program; with --sha256 and --version, or this process is used.")
    program.add_argument("--sha256", help="The program's SHA-256.")
    program.add_argument("--version", help="The version that the program must state.")
    commands = program.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    def add(name: str, text: str, run: Run) -> Callable[..., None]:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)

        def option(flag: str, **settings: Any) -> None:
            command.add_argument(flag, **({"required": True} | settings))

        return option

    def based(option: Callable[..., None]) -> None:
        option("--expected-revision", type=int, required=False, help="The revision that the write is based on.")

    option = add(
        "begin",
        "Start a session that holds the work.",
        lambda flow, a: flow.begin(a.work, a.agent, a.provider, a.model, a.expected_revision),
    )
    for name in ("--work", "--agent", "--provider", "--model"):
        option(name)
    based(option)
    option = add("adopt", "Go on with an active session.", lambda flow, a: flow.adopt(a.session, a.work))
    option("--session")
    option("--work")
    add("context", "Compile the required context and give it out.", lambda flow, _: flow.context())
    option = add("prepare", "Give out the context with the one next action.", _prepare)
    option("--observation", required=False, metavar="FILE", help="What the host observed of the work.")
    option("--goal", required=False, action="append", default=[], help="A goal's key; may be repeated.")
    option("--response-view", required=False, choices=("full", "summary", "action"), default="action")
    option = add("observe-compaction", "Record one completed compaction.", _observe)
    option("--input", metavar="FILE", help="observation, and policy and expected_revision if you like.")
    option = add(
        "compaction",
        "Show the assessment of the latest compaction.",
        lambda flow, a: flow.compaction(include_observation=a.include_observation),
    )
    option("--include-observation", action="store_true", required=False)
    option = add(
        "defer-compaction",
        "Postpone the advice about the latest compaction.",
        lambda flow, a: flow.defer_compaction(a.observation_event_id, a.expected_revision),
    )
    option("--observation-event-id")
    based(option)
    option = add(
        "progress",
        "Begin the work, or say how it goes on.",
        lambda flow, a: flow.progress(a.reason, a.next_action, a.expected_revision),
    )
    option("--reason")
    option("--next-action")
    based(option)
    option = add("ack", "Attest that the context was consumed.", lambda flow, a: flow.acknowledge(a.consumed_hash))
    option("--consumed-hash")
    option = add(
        "checkpoint",
        "Save where the session stands.",
        lambda flow, a: flow.checkpoint(a.consumed_hash, a.digest, a.next_action, a.expected_revision),
    )
    for name in ("--consumed-hash", "--digest", "--next-action"):
        option(name)
    based(option)
    option = add("evidence", "Record evidence.", lambda flow, a: flow.evidence(_json(a.input), a.expected_revision))
    option("--input", metavar="FILE", help="The fields of awr evidence add.")
    based(option)
    option = add(
        "finish",
        "Complete the work and end the session.",
        lambda flow, a: flow.finish(_json(a.input), a.reason, a.expected_revision),
    )
    option("--input", metavar="FILE", help="The completion, as for awr work complete.")
    option("--reason")
    based(option)
    option = add(
        "inspect",
        "Show what AWR knows that bears on a pending write.",
        lambda flow, a: flow.inspect(a.session, a.work),
    )
    option("--session", required=False)
    option("--work", required=False)
    option = add(
        "reconcile",
        "Go on after a write that failed or whose answer is lost.",
        lambda flow, a: flow.reconcile(a.inspection_sha256, a.reason, a.session, a.work),
    )
    option("--inspection-sha256")
    option("--reason")
    option("--session", required=False)
    option("--work", required=False)
    return program
