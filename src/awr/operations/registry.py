"""The one list of operations. A surface shows what stands here and nothing else.

An operation is a function with a typed request and a typed result. Its module is imported when it is called, because
a command pays for each import. `scope` says what it is given beside the request: an initialized project, a folder
that need not be one yet, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, get_type_hints

import msgspec

__all__ = ["OPERATIONS", "Operation", "operation_named"]

Scope = Literal["project", "folder", "none"]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a caller may ask.

    `command` is the path of words on the command line. `input_file` means that the whole request is a JSON file.
    `writes` means that it may change the journal. `capability` is the id that hosts negotiate.
    """

    name: str
    target: str
    command: str
    summary: str
    scope: Scope = "project"
    writes: bool = False
    input_file: bool = False
    capability: str | None = None
    example: str = ""

    def function(self) -> Callable[..., Any]:
        """Import and return the function."""
        module, _, attribute = self.target.partition(":")
        found: Callable[..., Any] = getattr(import_module(module), attribute)
        return found

    def request_type(self) -> type[msgspec.Struct]:
        """Return the type of its request."""
        found: type[msgspec.Struct] = get_type_hints(self.function())["request"]
        return found


def operation_named(name: str) -> Operation:
    """Return one operation. Raise KeyError for a name that is not in the list."""
    return _BY_NAME[name]


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="capabilities",
        target="awr.operations.capabilities:capabilities",
        command="capabilities",
        summary="Say what this build can do, for a host that negotiates.",
        scope="none",
        example="awr --json capabilities --require client.compaction",
    ),
    Operation(
        name="report",
        target="awr.hosts.report:report",
        command="report",
        summary="Report the compactions in the transcripts that agent hosts leave on disk.",
        scope="none",
        example="awr report --since 7d",
    ),
    Operation(
        name="project.init",
        target="awr.operations.init:initialize",
        command="init",
        summary="Show how this folder would become a project; with --accept, make it one.",
        scope="folder",
        writes=True,
        example='awr init --goal "Ship the parser" --accept',
    ),
    Operation(
        name="project.status",
        target="awr.operations.project:status",
        command="status",
        summary="Show the project's revision, its work and what comes next.",
        writes=True,
        capability="query.summary",
        example="awr status",
    ),
    Operation(
        name="source.list",
        target="awr.operations.source:listing",
        command="source list",
        summary="List the project's sources and how fresh they are.",
        capability="source.read",
        example="awr source list",
    ),
    Operation(
        name="source.scan",
        target="awr.operations.source:scan",
        command="source scan",
        summary="See which sources changed, without parsing them.",
        writes=True,
        capability="source.read",
        example="awr source scan",
    ),
    Operation(
        name="source.reindex",
        target="awr.operations.source:reindex",
        command="source reindex",
        summary="Parse the sources that changed and bring the project up to date with them.",
        writes=True,
        capability="source.refresh",
        example="awr source reindex",
    ),
    Operation(
        name="source.show",
        target="awr.operations.source:show",
        command="source show",
        summary="Show one source and what it names.",
        capability="source.read",
        example="awr source show work-ledger.yaml",
    ),
    Operation(
        name="work.show",
        target="awr.operations.work:show",
        command="work show",
        summary="Show one work item, its acceptance, and what keeps it from being started.",
        writes=True,
        capability="work.read",
        example="awr work show task-1",
    ),
    Operation(
        name="work.history",
        target="awr.operations.event:work_history",
        command="work history",
        summary="Page through the events of one work item.",
        capability="history.cursor",
        example="awr work history task-1 --event-type client.compaction_observed",
    ),
    Operation(
        name="session.start",
        target="awr.operations.session:start",
        command="session start",
        summary="Begin a session, bound to a work item and a conversation if you name them.",
        writes=True,
        example="awr session start --work task-1 --agent me --provider anthropic --model opus --expected-revision 2",
    ),
    Operation(
        name="session.list",
        target="awr.operations.session:listing",
        command="session list",
        summary="List sessions, newest first.",
        example="awr session list --active",
    ),
    Operation(
        name="session.show",
        target="awr.operations.session:show",
        command="session show",
        summary="Show one session, its binding and its claims.",
        example="awr session show SESSION",
    ),
    Operation(
        name="session.end",
        target="awr.operations.session:end",
        command="session end",
        summary="End a session and close its claims.",
        writes=True,
        example="awr session end --session SESSION --outcome ended --expected-revision 7",
    ),
    Operation(
        name="compaction.observe",
        target="awr.operations.compaction:observe",
        command="session compaction observe",
        summary="Record one completed native compaction as its host measured it.",
        writes=True,
        input_file=True,
        capability="client.compaction",
        example="awr --json session compaction observe --input observation.json",
    ),
    Operation(
        name="compaction.inspect",
        target="awr.operations.compaction:inspect",
        command="session compaction inspect",
        summary="Show what the latest compaction means and the one next action.",
        capability="client.compaction",
        example="awr session compaction inspect --session SESSION",
    ),
    Operation(
        name="compaction.defer",
        target="awr.operations.compaction:defer",
        command="session compaction defer",
        summary="Postpone the advice about the latest compaction.",
        writes=True,
        capability="client.compaction",
        example="awr session compaction defer --session SESSION --observation-event-id EVENT --expected-revision 8",
    ),
    Operation(
        name="compaction.import",
        target="awr.hosts.recording:import_transcript",
        command="session compaction import",
        summary="Record the compactions that a host's transcript proves.",
        writes=True,
        capability="client.compaction",
        example="awr session compaction import --session SESSION --transcript FILE",
    ),
    Operation(
        name="event.append",
        target="awr.operations.event:append",
        command="event append",
        summary="Add a note of your own to the journal.",
        writes=True,
        example='awr event append --event-type note.added --summary "Chose SQLite" --expected-revision 9',
    ),
    Operation(
        name="event.show",
        target="awr.operations.event:show",
        command="event show",
        summary="Show one event; with --full, its payload.",
        capability="history.cursor",
        example="awr event show EVENT --full",
    ),
    Operation(
        name="event.history",
        target="awr.operations.event:project_history",
        command="event history",
        summary="Page through the events of the project.",
        capability="history.cursor",
        example="awr event history --limit 50",
    ),
    Operation(
        name="journal.verify",
        target="awr.operations.journal:verify",
        command="journal verify",
        summary="Prove that the journal is as it was written, or say which event is not.",
        example="awr journal verify",
    ),
    Operation(
        name="journal.rebuild",
        target="awr.operations.journal:rebuild",
        command="journal rebuild",
        summary="Derive everything that comes from the journal again.",
        writes=True,
        example="awr journal rebuild",
    ),
)

_BY_NAME = {operation.name: operation for operation in OPERATIONS}
