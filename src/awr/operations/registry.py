"""The one list of operations. A surface shows what stands here and nothing else.

An operation is a function with a typed request and a typed result. Its module is imported when it is called, because
a command pays for each import. `scope` says what it is given beside the request: an initialized project, a folder
that need not be one yet, or nothing.

Every operation is a command. One that stands on a project is an agent's tool as well, unless it is an operator's.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, get_type_hints

import msgspec

__all__ = ["OPERATIONS", "Domain", "Effect", "Operation", "operation_named"]

Scope = Literal["project", "folder", "none"]
Effect = Literal["runtime_read", "source_read", "write"]
Domain = Literal["query", "context", "work", "evidence", "session", "continuity", "change", "compaction"]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a caller may ask.

    `command` is the path of words on the command line. `input_file` means that the whole request is a JSON file.
    `capability` is the id that hosts negotiate; `also` has further ids that the same operation answers for.

    `effect` says what it rests on: a `runtime_read` answers from what is recorded, a `source_read` from the project's
    files as well (a command brings them up to date first, an agent's tool verifies them), a `write` changes the
    journal. `operator` marks what only somebody at this machine may ask: what raises trust, edits policy, repairs or
    replaces the record, or touches files outside of the project. No agent's transport reaches it.

    `rewrites` marks a write that changes the project's own files.

    `terminal` names the event that proves that a write was carried out, when its answer was lost; `*` stands for any
    type that a caller may append. Without one, a lost answer stays unknown.

    The rest is how an agent finds it: the `domain` of tools it belongs to, the name of the `tool` where `awr_<name>`
    is not it, the `action` that chooses it where several operations share one tool, and the fields that are
    `required` of an agent though a person may leave them out.
    """

    name: str
    target: str
    command: str
    summary: str
    scope: Scope = "project"
    effect: Effect = "runtime_read"
    operator: bool = False
    rewrites: bool = False
    domain: Domain | None = None
    tool: str = ""
    action: str = ""
    required: tuple[str, ...] = ()
    terminal: tuple[str, ...] = ()
    input_file: bool = False
    capability: str | None = None
    also: tuple[str, ...] = ()
    example: str = ""

    @property
    def exposed(self) -> bool:
        """Whether an agent's transport may reach it."""
        return self.scope == "project" and not self.operator

    @property
    def identified(self) -> bool:
        """Whether a caller may name the write with a request id. Recovering one that was named is none of them."""
        return self.exposed and self.effect == "write" and self.name != "operation.recover"

    @property
    def tool_name(self) -> str:
        """The name of its tool. Only an exposed operation has one that anybody answers to."""
        return self.tool or "awr_" + self.name.replace(".", "_")

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
        operator=True,
        example="awr report --since 7d",
    ),
    Operation(
        name="project.init",
        target="awr.operations.init:initialize",
        command="init",
        summary="Show how this folder would become a project; with --accept, make it one.",
        scope="folder",
        effect="write",
        operator=True,
        example='awr init --goal "Ship the parser" --accept',
    ),
    Operation(
        name="project.status",
        target="awr.operations.project:status",
        command="status",
        summary="Show the project's revision, its work and what comes next.",
        effect="source_read",
        domain="query",
        capability="query.summary",
        example="awr status",
    ),
    Operation(
        name="work.ready",
        target="awr.operations.ready:ready",
        command="ready",
        summary="List the work that may be claimed now, and count what keeps the rest.",
        effect="source_read",
        domain="query",
        capability="query.summary",
        example="awr ready --limit 5",
    ),
    Operation(
        name="search",
        target="awr.operations.search:search",
        command="search",
        summary="Find goals, plans, rules, work, evidence and events by their words.",
        effect="source_read",
        domain="query",
        example="awr search parser --kind work",
    ),
    Operation(
        name="source.list",
        target="awr.operations.source:listing",
        command="source list",
        summary="List the project's sources and how fresh they are.",
        domain="continuity",
        capability="source.read",
        example="awr source list",
    ),
    Operation(
        name="source.scan",
        target="awr.operations.source:scan",
        command="source scan",
        summary="See which sources changed, without parsing them.",
        effect="write",
        domain="continuity",
        capability="source.read",
        example="awr source scan",
    ),
    Operation(
        name="source.reindex",
        target="awr.operations.source:reindex",
        command="source reindex",
        summary="Parse the sources that changed and bring the project up to date with them.",
        effect="write",
        domain="continuity",
        required=("expected_revision",),
        capability="source.refresh",
        example="awr source reindex",
    ),
    Operation(
        name="source.show",
        target="awr.operations.source:show",
        command="source show",
        summary="Show one source and what it names.",
        domain="continuity",
        capability="source.read",
        example="awr source show work-ledger.yaml",
    ),
    Operation(
        name="work.show",
        target="awr.operations.work:show",
        command="work show",
        summary="Show one work item, its acceptance, and what keeps it from being started.",
        effect="source_read",
        domain="query",
        tool="awr_work_get",
        capability="work.read",
        example="awr work show task-1",
    ),
    Operation(
        name="work.graph",
        target="awr.operations.graph:graph",
        command="work graph",
        summary="Show what work depends on and what depends on it, with circles and missing references.",
        effect="source_read",
        domain="work",
        capability="work.graph",
        example="awr work graph task-1",
    ),
    Operation(
        name="work.history",
        target="awr.operations.event:work_history",
        command="work history",
        summary="Page through the events of one work item.",
        domain="query",
        capability="history.cursor",
        example="awr work history task-1 --event-type client.compaction_observed",
    ),
    Operation(
        name="work.assess",
        target="awr.operations.management:assess",
        command="work assess",
        summary="Say how closely a work item has to be managed, and why.",
        effect="source_read",
        domain="context",
        capability="work.management",
        example="awr work assess task-1",
    ),
    Operation(
        name="work.manage",
        target="awr.operations.management:manage",
        command="work manage",
        summary="Record what a host observed about a work item, and the management it asks for.",
        effect="write",
        terminal=("management.assessed",),
        domain="work",
        input_file=True,
        capability="work.management",
        example="awr work manage --input observation.json",
    ),
    Operation(
        name="work.prepare",
        target="awr.operations.preparation:prepare",
        command="work prepare",
        summary="Bring together what an agent must know about a work item, and the one next action.",
        effect="source_read",
        domain="context",
        capability="workflow.prepare",
        also=("workflow.response_summary", "workflow.action_guidance"),
        example="awr work prepare task-1 --session SESSION --response-view action",
    ),
    Operation(
        name="work.claim",
        target="awr.operations.claim:claim",
        command="work claim",
        summary="Take a work item for one session alone.",
        effect="write",
        terminal=("work.claimed",),
        domain="session",
        tool="awr_session_claim",
        action="acquire",
        required=("session",),
        example="awr work claim task-1 --session SESSION --expected-revision 5",
    ),
    Operation(
        name="work.release",
        target="awr.operations.claim:release",
        command="work release",
        summary="Give a claim back.",
        effect="write",
        terminal=("claim.released", "claim.expired"),
        domain="session",
        tool="awr_session_claim",
        action="release",
        required=("session", "claim"),
        example="awr work release task-1 --session SESSION --expected-revision 6",
    ),
    Operation(
        name="work.handoff",
        target="awr.operations.claim:handoff",
        command="work handoff",
        summary="Hand work over with its checkpoint, to another session if you name one.",
        effect="write",
        terminal=("work.handoff",),
        domain="work",
        required=("session",),
        example="awr work handoff task-1 --to-session OTHER --expected-revision 9",
    ),
    Operation(
        name="context.compile",
        target="awr.operations.context:compile",
        command="context compile",
        summary="Compile everything that must be known of a work item, within a budget of tokens.",
        effect="source_read",
        domain="context",
        capability="context.compile",
        example="awr --json context compile --work task-1 --budget 5000",
    ),
    Operation(
        name="context.bootstrap",
        target="awr.operations.bootstrap:bootstrap",
        command="context bootstrap",
        summary="Give the few facts that a session needs at its start, before it compiles its context.",
        effect="source_read",
        domain="context",
        capability="context.compile",
        example="awr context bootstrap --session SESSION",
    ),
    Operation(
        name="session.restart_estimate",
        target="awr.operations.restart:restart_estimate",
        command="session restart-estimate",
        summary="Say how large a complete restart would be, and whether that is less than what the session holds.",
        effect="source_read",
        domain="context",
        capability="context.compile",
        example="awr session restart-estimate --session SESSION --fixed-tokens 9000 --fixed-basis host_reported "
        "--tools-tokens 14000 --tools-basis host_reported",
    ),
    Operation(
        name="work.create",
        target="awr.operations.creation:create",
        command="work create",
        summary="Write a new work item into the ledger, as a draft.",
        effect="write",
        rewrites=True,
        terminal=("proposal.applied",),
        domain="change",
        capability="mutation.work.create",
        example='awr work create task-9 --title "Read CSV" --goal goal-1 --expected-revision 5',
    ),
    Operation(
        name="work.activate",
        target="awr.operations.creation:activate",
        command="work activate",
        summary="Make a complete draft planned work.",
        effect="write",
        rewrites=True,
        terminal=("work.draft_activated",),
        domain="change",
        capability="mutation.work.activate_draft",
        example="awr work activate task-9 --expected-revision 8",
    ),
    Operation(
        name="transition.progress",
        target="awr.operations.transition:progress",
        command="work progress",
        summary="Begin work, or say how it goes on; the ledger is written.",
        effect="write",
        rewrites=True,
        terminal=("work.progressed",),
        domain="work",
        tool="awr_work_transition",
        action="progress",
        required=("session",),
        capability="mutation.yaml.lossless_fields",
        example='awr work progress task-1 --session SESSION --reason "Grammar done" --next-action "Write escapes" '
        "--expected-revision 5",
    ),
    Operation(
        name="transition.block",
        target="awr.operations.transition:block",
        command="work block",
        summary="Say what is in the way of work under way.",
        effect="write",
        rewrites=True,
        terminal=("work.blocked",),
        domain="work",
        tool="awr_work_transition",
        action="block",
        required=("session",),
        capability="mutation.yaml.lossless_fields",
        example='awr work block task-1 --session SESSION --reason "No access" --blocker "Access to the host" '
        "--expected-revision 8",
    ),
    Operation(
        name="transition.unblock",
        target="awr.operations.transition:unblock",
        command="work unblock",
        summary="Go on with blocked work.",
        effect="write",
        rewrites=True,
        terminal=("work.unblocked",),
        domain="work",
        tool="awr_work_transition",
        action="unblock",
        required=("session",),
        capability="mutation.yaml.lossless_fields",
        example='awr work unblock task-1 --session SESSION --reason "Access is there" --next-action "Deploy" '
        "--expected-revision 11",
    ),
    Operation(
        name="transition.cancel",
        target="awr.operations.transition:cancel",
        command="work cancel",
        summary="Give work up and release its claims.",
        effect="write",
        rewrites=True,
        terminal=("work.cancelled",),
        domain="work",
        tool="awr_work_transition",
        action="cancel",
        required=("session",),
        capability="mutation.yaml.lossless_fields",
        example='awr work cancel task-1 --session SESSION --reason "Not needed" --expected-revision 8',
    ),
    Operation(
        name="transition.reopen",
        target="awr.operations.transition:reopen",
        command="work reopen",
        summary="Plan finished or cancelled work again.",
        effect="write",
        rewrites=True,
        terminal=("work.reopened",),
        domain="work",
        tool="awr_work_transition",
        action="reopen",
        required=("session",),
        capability="mutation.yaml.lossless_fields",
        example='awr work reopen task-1 --session SESSION --reason "It broke" --next-action "Find out why" '
        "--expected-revision 8",
    ),
    Operation(
        name="transition.complete",
        target="awr.operations.completion:complete",
        command="work complete",
        summary="Complete work whose every criterion is borne out by a report.",
        effect="write",
        rewrites=True,
        terminal=("work.completed",),
        domain="work",
        tool="awr_work_transition",
        action="complete",
        required=("session", "completion"),
        capability="completion.engineering",
        example='awr work complete task-1 --session SESSION --reason "All samples parse" --input completion.json '
        "--expected-revision 9",
    ),
    Operation(
        name="completion.prepare",
        target="awr.operations.completion:prepare",
        command="work prepare-completion",
        summary="Validate a report and show the evidence and the completion it makes; write nothing.",
        effect="source_read",
        domain="context",
        capability="completion.prepare",
        example="awr work prepare-completion task-1 --report reports/tests.json --evidence-key tests-1 "
        "--source-sha COMMIT --level locally_verified",
    ),
    Operation(
        name="evidence.add",
        target="awr.operations.evidence:add",
        command="evidence add",
        summary="Record how something was verified.",
        effect="write",
        terminal=("evidence.recorded",),
        domain="evidence",
        tool="awr_evidence_record",
        capability="evidence.read_write",
        example='awr evidence add design-1 --work task-1 --evidence-type review --level designed --summary "Agreed" '
        "--locator docs/design.md --scope parser --expected-revision 5",
    ),
    Operation(
        name="evidence.show",
        target="awr.operations.evidence:show",
        command="evidence show",
        summary="Show recorded evidence and whether it speaks of a state of the source code.",
        domain="evidence",
        capability="evidence.read_write",
        example="awr evidence show --work task-1",
    ),
    Operation(
        name="proposal.show",
        target="awr.operations.proposal:show",
        command="proposal show",
        summary="Show how a change of a source stands.",
        domain="change",
        capability="mutation.yaml.lossless_fields",
        example="awr proposal show PROPOSAL",
    ),
    Operation(
        name="proposal.recover",
        target="awr.operations.proposal:recover",
        command="proposal recover",
        summary="Finish a change of a source whose writer died.",
        effect="write",
        rewrites=True,
        domain="change",
        required=("expected_revision",),
        capability="mutation.yaml.lossless_fields",
        example="awr proposal recover PROPOSAL",
    ),
    Operation(
        name="session.start",
        target="awr.operations.session:start",
        command="session start",
        summary="Begin a session, bound to a work item and a conversation if you name them.",
        effect="write",
        terminal=("session.started",),
        domain="session",
        required=("work", "conversation"),
        example="awr session start --work task-1 --agent me --provider anthropic --model opus --expected-revision 2",
    ),
    Operation(
        name="session.list",
        target="awr.operations.session:listing",
        command="session list",
        summary="List sessions, newest first.",
        domain="session",
        example="awr session list --active",
    ),
    Operation(
        name="session.show",
        target="awr.operations.session:show",
        command="session show",
        summary="Show one session, its binding and its claims.",
        domain="session",
        tool="awr_session_get",
        required=("session",),
        example="awr session show SESSION",
    ),
    Operation(
        name="session.end",
        target="awr.operations.session:end",
        command="session end",
        summary="End a session and close its claims.",
        effect="write",
        terminal=("session.ended",),
        domain="session",
        required=("outcome",),
        example="awr session end --session SESSION --outcome ended --expected-revision 7",
    ),
    Operation(
        name="session.checkpoint",
        target="awr.operations.checkpoint:checkpoint",
        command="session checkpoint",
        summary="Save where a session stands, so that another one can go on.",
        effect="write",
        terminal=("checkpoint.created",),
        domain="session",
        required=("session",),
        capability="session.checkpoint",
        example='awr session checkpoint --context-hash HASH --digest "Grammar done" --next-action "Escapes" '
        "--expected-revision 8",
    ),
    Operation(
        name="session.resume",
        target="awr.operations.resume:resume",
        command="session resume",
        summary="Go on from a session that stopped, with its checkpoint and freshly compiled required context.",
        effect="write",
        terminal=("session.resumed",),
        domain="session",
        required=("session", "conversation"),
        capability="session.resume",
        example="awr session resume --agent me --provider anthropic --model opus --work task-1 --expected-revision 9",
    ),
    Operation(
        name="session.wait",
        target="awr.operations.checkpoint:wait",
        command="session wait",
        summary="Save a checkpoint and record a question that only the user can answer.",
        effect="write",
        terminal=("mcp.wait_created",),
        domain="continuity",
        required=("session",),
        example='awr session wait --question "Ship it?" --context-hash HASH --digest "Built" --next-action "Ship" '
        "--expected-revision 8",
    ),
    Operation(
        name="session.reply",
        target="awr.operations.checkpoint:reply",
        command="session reply",
        summary="Record the user's reply to a wait, or close it without one.",
        effect="write",
        terminal=("mcp.wait_replied",),
        domain="continuity",
        example='awr session reply WAIT --reply "Yes" --expected-revision 11',
    ),
    Operation(
        name="session.waits",
        target="awr.operations.checkpoint:waits",
        command="session waits",
        summary="Show what a session and those it continues wait for.",
        domain="continuity",
        required=("session",),
        example="awr session waits SESSION",
    ),
    Operation(
        name="compaction.observe",
        target="awr.operations.compaction:observe",
        command="session compaction observe",
        summary="Record one completed native compaction as its host measured it.",
        effect="write",
        terminal=("client.compaction_observed",),
        domain="compaction",
        input_file=True,
        capability="client.compaction",
        example="awr --json session compaction observe --input observation.json",
    ),
    Operation(
        name="compaction.inspect",
        target="awr.operations.compaction:inspect",
        command="session compaction inspect",
        summary="Show what the latest compaction means and the one next action.",
        domain="compaction",
        tool="awr_compaction_get",
        capability="client.compaction",
        example="awr session compaction inspect --session SESSION",
    ),
    Operation(
        name="compaction.defer",
        target="awr.operations.compaction:defer",
        command="session compaction defer",
        summary="Postpone the advice about the latest compaction.",
        effect="write",
        terminal=("client.compaction_deferred",),
        domain="compaction",
        capability="client.compaction",
        example="awr session compaction defer --session SESSION --observation-event-id EVENT --expected-revision 8",
    ),
    Operation(
        name="compaction.import",
        target="awr.hosts.recording:import_transcript",
        command="session compaction import",
        summary="Record the compactions that a host's transcript proves.",
        effect="write",
        operator=True,
        capability="client.compaction",
        example="awr session compaction import --session SESSION --transcript FILE",
    ),
    Operation(
        name="execution.register",
        target="awr.operations.execution:register",
        command="execution register",
        summary="Announce something that runs outside AWR, so that it never runs twice.",
        effect="write",
        terminal=("execution.registered",),
        domain="work",
        capability="execution.external.register",
        example='awr execution register --session SESSION --operation-key deploy-7 --purpose "Deploy" '
        "--expected-revision 8",
    ),
    Operation(
        name="execution.report",
        target="awr.operations.execution:report",
        command="execution report",
        summary="Record how a host says an execution stands.",
        effect="write",
        terminal=("execution.external_reported",),
        domain="work",
        input_file=True,
        capability="execution.external.report",
        example="awr execution report --input report.json",
    ),
    Operation(
        name="execution.list",
        target="awr.operations.execution:listing",
        command="execution list",
        summary="List executions and whose outcome is unknown.",
        domain="work",
        example="awr execution list --work task-1",
    ),
    Operation(
        name="execution.show",
        target="awr.operations.execution:show",
        command="execution show",
        summary="Show one execution and everything reported of it.",
        domain="work",
        example="awr execution show EXECUTION",
    ),
    Operation(
        name="operation.get",
        target="awr.operations.operation:get",
        command="operation get",
        summary="Show what became of an identified write, by its request id.",
        domain="continuity",
        example="awr operation get REQUEST",
    ),
    Operation(
        name="operation.recover",
        target="awr.operations.operation:recover",
        command="operation recover",
        summary="Find the lost answer of an identified write in the journal; nothing is carried out again.",
        effect="write",
        domain="continuity",
        example="awr operation recover REQUEST --expected-revision 12",
    ),
    Operation(
        name="event.append",
        target="awr.operations.event:append",
        command="event append",
        summary="Add a note of your own to the journal.",
        effect="write",
        terminal=("*",),
        domain="evidence",
        example='awr event append --event-type note.added --summary "Chose SQLite" --expected-revision 9',
    ),
    Operation(
        name="event.show",
        target="awr.operations.event:show",
        command="event show",
        summary="Show one event; with --full, its payload.",
        domain="query",
        capability="history.cursor",
        example="awr event show EVENT --full",
    ),
    Operation(
        name="event.history",
        target="awr.operations.event:project_history",
        command="event history",
        summary="Page through the events of the project.",
        domain="query",
        capability="history.cursor",
        example="awr event history --limit 50",
    ),
    Operation(
        name="journal.verify",
        target="awr.operations.journal:verify",
        command="journal verify",
        summary="Prove that the journal is as it was written, or say which event is not.",
        domain="continuity",
        example="awr journal verify",
    ),
    Operation(
        name="journal.rebuild",
        target="awr.operations.journal:rebuild",
        command="journal rebuild",
        summary="Derive everything that comes from the journal again.",
        effect="write",
        operator=True,
        example="awr journal rebuild",
    ),
    Operation(
        name="doctor",
        target="awr.operations.doctor:doctor",
        command="doctor",
        summary="Look the project over, changing nothing, and name the command for each repair.",
        operator=True,
        example="awr doctor",
    ),
    Operation(
        name="doctor.repair",
        target="awr.operations.repair:repair",
        command="doctor repair",
        summary="Repair one record that awr doctor named.",
        effect="write",
        operator=True,
        example='awr doctor repair expire-claim CLAIM --expected-revision 9 --reason "The agent is gone"',
    ),
    Operation(
        name="backup",
        target="awr.operations.backup:backup",
        command="backup",
        summary="Copy the database, the manifest and the sources into a new folder, and verify the copy.",
        operator=True,
        example="awr backup ../project-backup",
    ),
    Operation(
        name="restore",
        target="awr.operations.restore:restore",
        command="restore",
        summary="Verify a backup and show what it would replace; with --accept, put it in place.",
        scope="folder",
        effect="write",
        operator=True,
        example="awr restore ../project-backup --accept",
    ),
)

_BY_NAME = {operation.name: operation for operation in OPERATIONS}
