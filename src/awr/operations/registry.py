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
    `writes` means that it may change the journal. `capability` is the id that hosts negotiate; `also` has further
    ids that the same operation answers for.
    """

    name: str
    target: str
    command: str
    summary: str
    scope: Scope = "project"
    writes: bool = False
    input_file: bool = False
    capability: str | None = None
    also: tuple[str, ...] = ()
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
        name="ready",
        target="awr.operations.ready:ready",
        command="ready",
        summary="List the work that may be claimed now, and count what keeps the rest.",
        writes=True,
        capability="query.summary",
        example="awr ready --limit 5",
    ),
    Operation(
        name="search",
        target="awr.operations.search:search",
        command="search",
        summary="Find goals, plans, rules, work, evidence and events by their words.",
        writes=True,
        example="awr search parser --kind work",
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
        name="work.graph",
        target="awr.operations.graph:graph",
        command="work graph",
        summary="Show what work depends on and what depends on it, with circles and missing references.",
        writes=True,
        capability="work.graph",
        example="awr work graph task-1",
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
        name="work.assess",
        target="awr.operations.management:assess",
        command="work assess",
        summary="Say how closely a work item has to be managed, and why.",
        writes=True,
        capability="work.management",
        example="awr work assess task-1",
    ),
    Operation(
        name="work.manage",
        target="awr.operations.management:manage",
        command="work manage",
        summary="Record what a host observed about a work item, and the management it asks for.",
        writes=True,
        input_file=True,
        capability="work.management",
        example="awr work manage --input observation.json",
    ),
    Operation(
        name="work.prepare",
        target="awr.operations.preparation:prepare",
        command="work prepare",
        summary="Bring together what an agent must know about a work item, and the one next action.",
        writes=True,
        capability="workflow.prepare",
        also=("workflow.response_summary", "workflow.action_guidance"),
        example="awr work prepare task-1 --session SESSION --response-view action",
    ),
    Operation(
        name="work.claim",
        target="awr.operations.claim:claim",
        command="work claim",
        summary="Take a work item for one session alone.",
        writes=True,
        example="awr work claim task-1 --session SESSION --expected-revision 5",
    ),
    Operation(
        name="work.release",
        target="awr.operations.claim:release",
        command="work release",
        summary="Give a claim back.",
        writes=True,
        example="awr work release task-1 --session SESSION --expected-revision 6",
    ),
    Operation(
        name="work.handoff",
        target="awr.operations.claim:handoff",
        command="work handoff",
        summary="Hand work over with its checkpoint, to another session if you name one.",
        writes=True,
        example="awr work handoff task-1 --to-session OTHER --expected-revision 9",
    ),
    Operation(
        name="context.compile",
        target="awr.operations.context:compile",
        command="context compile",
        summary="Compile everything that must be known of a work item, within a budget of tokens.",
        writes=True,
        capability="context.compile",
        example="awr --json context compile --work task-1 --budget 5000",
    ),
    Operation(
        name="context.bootstrap",
        target="awr.operations.bootstrap:bootstrap",
        command="context bootstrap",
        summary="Give the few facts that a session needs at its start, before it compiles its context.",
        writes=True,
        capability="context.compile",
        example="awr context bootstrap --session SESSION",
    ),
    Operation(
        name="session.restart_estimate",
        target="awr.operations.restart:restart_estimate",
        command="session restart-estimate",
        summary="Say how large a complete restart would be, and whether that is less than what the session holds.",
        writes=True,
        capability="context.compile",
        example="awr session restart-estimate --session SESSION --fixed-tokens 9000 --fixed-basis host_reported "
        "--tools-tokens 14000 --tools-basis host_reported",
    ),
    Operation(
        name="transition.create",
        target="awr.operations.creation:create",
        command="work create",
        summary="Write a new work item into the ledger, as a draft.",
        writes=True,
        capability="mutation.work.create",
        example='awr work create task-9 --title "Read CSV" --goal goal-1 --expected-revision 5',
    ),
    Operation(
        name="transition.activate",
        target="awr.operations.creation:activate",
        command="work activate",
        summary="Make a complete draft planned work.",
        writes=True,
        capability="mutation.work.activate_draft",
        example="awr work activate task-9 --expected-revision 8",
    ),
    Operation(
        name="transition.progress",
        target="awr.operations.transition:progress",
        command="work progress",
        summary="Begin work, or say how it goes on; the ledger is written.",
        writes=True,
        capability="mutation.yaml.lossless_fields",
        example='awr work progress task-1 --session SESSION --reason "Grammar done" --next-action "Write escapes" '
        "--expected-revision 5",
    ),
    Operation(
        name="transition.block",
        target="awr.operations.transition:block",
        command="work block",
        summary="Say what is in the way of work under way.",
        writes=True,
        capability="mutation.yaml.lossless_fields",
        example='awr work block task-1 --session SESSION --reason "No access" --blocker "Access to the host" '
        "--expected-revision 8",
    ),
    Operation(
        name="transition.unblock",
        target="awr.operations.transition:unblock",
        command="work unblock",
        summary="Go on with blocked work.",
        writes=True,
        capability="mutation.yaml.lossless_fields",
        example='awr work unblock task-1 --session SESSION --reason "Access is there" --next-action "Deploy" '
        "--expected-revision 11",
    ),
    Operation(
        name="transition.cancel",
        target="awr.operations.transition:cancel",
        command="work cancel",
        summary="Give work up and release its claims.",
        writes=True,
        capability="mutation.yaml.lossless_fields",
        example='awr work cancel task-1 --session SESSION --reason "Not needed" --expected-revision 8',
    ),
    Operation(
        name="transition.reopen",
        target="awr.operations.transition:reopen",
        command="work reopen",
        summary="Plan finished or cancelled work again.",
        writes=True,
        capability="mutation.yaml.lossless_fields",
        example='awr work reopen task-1 --session SESSION --reason "It broke" --next-action "Find out why" '
        "--expected-revision 8",
    ),
    Operation(
        name="transition.complete",
        target="awr.operations.completion:complete",
        command="work complete",
        summary="Complete work whose every criterion is borne out by a report.",
        writes=True,
        capability="completion.engineering",
        example='awr work complete task-1 --session SESSION --reason "All samples parse" --input completion.json '
        "--expected-revision 9",
    ),
    Operation(
        name="transition.prepare",
        target="awr.operations.completion:prepare",
        command="work prepare-completion",
        summary="Validate a report and show the evidence and the completion it makes; write nothing.",
        capability="completion.prepare",
        example="awr work prepare-completion task-1 --report reports/tests.json --evidence-key tests-1 "
        "--source-sha COMMIT --level locally_verified",
    ),
    Operation(
        name="evidence.add",
        target="awr.operations.evidence:add",
        command="evidence add",
        summary="Record how something was verified.",
        writes=True,
        capability="evidence.read_write",
        example='awr evidence add design-1 --work task-1 --evidence-type review --level designed --summary "Agreed" '
        "--locator docs/design.md --scope parser --expected-revision 5",
    ),
    Operation(
        name="evidence.show",
        target="awr.operations.evidence:show",
        command="evidence show",
        summary="Show recorded evidence and whether it speaks of a state of the source code.",
        capability="evidence.read_write",
        example="awr evidence show --work task-1",
    ),
    Operation(
        name="proposal.show",
        target="awr.operations.proposal:show",
        command="proposal show",
        summary="Show how a change of a source stands.",
        capability="mutation.yaml.lossless_fields",
        example="awr proposal show PROPOSAL",
    ),
    Operation(
        name="proposal.recover",
        target="awr.operations.proposal:recover",
        command="proposal recover",
        summary="Finish a change of a source whose writer died.",
        writes=True,
        capability="mutation.yaml.lossless_fields",
        example="awr proposal recover PROPOSAL",
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
        name="session.checkpoint",
        target="awr.operations.checkpoint:checkpoint",
        command="session checkpoint",
        summary="Save where a session stands, so that another one can go on.",
        writes=True,
        capability="session.checkpoint",
        example='awr session checkpoint --context-hash HASH --digest "Grammar done" --next-action "Escapes" '
        "--expected-revision 8",
    ),
    Operation(
        name="session.resume",
        target="awr.operations.resume:resume",
        command="session resume",
        summary="Go on from a session that stopped, with its checkpoint and freshly compiled required context.",
        writes=True,
        capability="session.resume",
        example="awr session resume --agent me --provider anthropic --model opus --work task-1 --expected-revision 9",
    ),
    Operation(
        name="session.wait",
        target="awr.operations.checkpoint:wait",
        command="session wait",
        summary="Save a checkpoint and record a question that only the user can answer.",
        writes=True,
        example='awr session wait --question "Ship it?" --context-hash HASH --digest "Built" --next-action "Ship" '
        "--expected-revision 8",
    ),
    Operation(
        name="session.reply",
        target="awr.operations.checkpoint:reply",
        command="session reply",
        summary="Record the user's reply to a wait, or close it without one.",
        writes=True,
        example='awr session reply WAIT --reply "Yes" --expected-revision 11',
    ),
    Operation(
        name="session.waits",
        target="awr.operations.checkpoint:waits",
        command="session waits",
        summary="Show what a session and those it continues wait for.",
        example="awr session waits SESSION",
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
        name="execution.register",
        target="awr.operations.execution:register",
        command="execution register",
        summary="Announce something that runs outside AWR, so that it never runs twice.",
        writes=True,
        capability="execution.external.register",
        example='awr execution register --session SESSION --operation-key deploy-7 --purpose "Deploy" '
        "--expected-revision 8",
    ),
    Operation(
        name="execution.report",
        target="awr.operations.execution:report",
        command="execution report",
        summary="Record how a host says an execution stands.",
        writes=True,
        input_file=True,
        capability="execution.external.report",
        example="awr execution report --input report.json",
    ),
    Operation(
        name="execution.list",
        target="awr.operations.execution:listing",
        command="execution list",
        summary="List executions and whose outcome is unknown.",
        example="awr execution list --work task-1",
    ),
    Operation(
        name="execution.show",
        target="awr.operations.execution:show",
        command="execution show",
        summary="Show one execution and everything reported of it.",
        example="awr execution show EXECUTION",
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
    Operation(
        name="doctor",
        target="awr.operations.doctor:doctor",
        command="doctor",
        summary="Look the project over, changing nothing, and name the command for each repair.",
        example="awr doctor",
    ),
    Operation(
        name="doctor.repair",
        target="awr.operations.repair:repair",
        command="doctor repair",
        summary="Repair one record that awr doctor named.",
        writes=True,
        example='awr doctor repair expire-claim CLAIM --expected-revision 9 --reason "The agent is gone"',
    ),
    Operation(
        name="backup",
        target="awr.operations.backup:backup",
        command="backup",
        summary="Copy the database, the manifest and the sources into a new folder, and verify the copy.",
        example="awr backup ../project-backup",
    ),
    Operation(
        name="restore",
        target="awr.operations.restore:restore",
        command="restore",
        summary="Verify a backup and show what it would replace; with --accept, put it in place.",
        scope="folder",
        writes=True,
        example="awr restore ../project-backup --accept",
    ),
)

_BY_NAME = {operation.name: operation for operation in OPERATIONS}
