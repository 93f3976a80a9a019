"""Results as a person reads them: what it is, what it means, what to do next."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

import click
import msgspec

from awr.domain.card import Card

__all__ = ["view_of"]

View = Callable[[Any], None]

_CONTINUITY = "awr.surfaces.cli.continuity_view"
#: Operations whose views have a room of their own, by their name or its first word: a module with `VIEWS`.
_ROOMS: dict[str, str] = {
    **dict.fromkeys(
        ("completion", "evidence", "proposal", "transition", "work.activate", "work.create"),
        "awr.surfaces.cli.work_view",
    ),
    "client": "awr.surfaces.cli.client_view",
    "context": "awr.surfaces.cli.context_view",
    "guardian": "awr.surfaces.cli.guardian_view",
    **dict.fromkeys(
        ("guardian.policy_list", "guardian.policy_check", "guardian.policy_explain", "guardian.policy_test"),
        "awr.surfaces.cli.policy_view",
    ),
    "operation": "awr.surfaces.cli.operation_view",
    **dict.fromkeys(("backup", "doctor", "restore"), "awr.surfaces.cli.care_view"),
    **dict.fromkeys(("work.ready", "search", "work.graph"), "awr.surfaces.cli.finding_view"),
    **dict.fromkeys(
        (
            "execution",
            "session.checkpoint",
            "session.reply",
            "session.resume",
            "session.wait",
            "session.waits",
            "work.assess",
            "work.claim",
            "work.handoff",
            "work.manage",
            "work.prepare",
            "work.release",
        ),
        _CONTINUITY,
    ),
}


def view_of(name: str) -> View:
    """Return how an operation's result is shown; one without a view of its own shows its fields."""
    module = _ROOMS.get(name) or _ROOMS.get(name.partition(".")[0])
    views: dict[str, View] = import_module(module).VIEWS if module else _VIEWS
    return views.get(name, show_fields)


def show_fields(result: Any) -> None:
    """Print every field on a line of its own."""
    for name, value in msgspec.to_builtins(result).items():
        click.echo(f"{name + ':':<18}{'none' if value is None else _plain(value)}")


def heading(text: str) -> None:
    """Print the line that says what follows."""
    click.echo(click.style(text, bold=True))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns under their names."""
    lines = [tuple(_plain(cell) for cell in row) for row in rows]
    widths = [max(len(name), *(len(line[place]) for line in lines)) for place, name in enumerate(columns)]
    for number, line in enumerate([tuple(columns), *lines]):
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        click.echo(text if number else click.style(text, dim=True))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it needs one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def show_card(card: Card) -> None:
    """Print a card's four texts, the next action in bold."""
    for label, text in (("when", card.when), ("basis", card.basis), ("next action", card.next_action)):
        _wrapped(label, text, bold=label == "next action")
    _wrapped("recheck", card.recheck)


def _wrapped(label: str, text: str, *, bold: bool = False) -> None:
    from textwrap import wrap

    width = min(max(_columns(), 60), 100)
    lines = wrap(text, width=width, initial_indent=f"  {label + ':':<13}", subsequent_indent=" " * 15)
    click.echo(lines[0][:15] + click.style("\n".join([lines[0][15:], *lines[1:]]), bold=bold))


def _columns() -> int:
    # shutil would answer the same, and its import costs more than the rest of a view.
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal():
        return int(stated)
    try:
        return os.get_terminal_size().columns
    except OSError:
        return 80


def local_time(at: int | None) -> str:
    """Return a time in Unix milliseconds as local time, or "unknown"."""
    return "unknown" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at / 1000))


def _plain(value: object) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_plain(item) for item in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(item)}" for name, item in value.items()) or "none"
    return str(value)


def _status(result: Any) -> None:
    click.echo(f"project {result.project_id}, revision {result.project_revision}")
    counts = ", ".join(f"{number} {name}" for name, number in sorted(result.counts.items()))
    work, active = counted(result.total, "work item"), counted(result.active_sessions, "active session")
    click.echo(f"{work}{': ' + counts if counts else ''}; {active}")
    if result.stale_sources:
        stale = counted(result.stale_sources, "source")
        click.echo(click.style(f"{stale} not fresh; see awr source list", fg="yellow"))
    if result.project is not msgspec.UNSET:
        click.echo(f"name: {result.project['name']}")
        _queue("current", result.current, result.current_total)
        click.echo(f"ready: {result.ready_count}, blocked: {result.blocked_count}")
        if result.suggested_work:
            click.echo(f"suggested: {result.suggested_work}: {result.next_action or 'no next action stated'}")
    if result.queues is not msgspec.UNSET:
        for name, queue in result.queues.items():
            _queue(name, queue.entries, queue.total)
        for one in result.active_claims.entries:
            click.echo(f"held: {one.work_item_key} by {one.agent_id} in session {one.session_id}")
        for one in result.pending_operations.entries:
            click.echo(click.style(f"pending: {one.kind} {one.id} is {one.state}", fg="yellow"))
        show_card(result.guidance)


def _queue(name: str, entries: Sequence[Any], total: int) -> None:
    if not total:
        return
    click.echo(f"{name} ({total}):")
    for entry in entries:
        click.echo(f"  {entry.external_key}  {entry.title}  [{entry.status}]")
    if total > len(entries):
        click.echo(f"  and {total - len(entries)} more")


def _init(result: Any) -> None:
    for change in result.changes:
        mark = "wrote" if result.accepted else "would write"
        click.echo(f"{mark} {change.path}")
        if not result.accepted:
            for line in change.content.splitlines():
                click.echo(click.style(f"    {line}", dim=True))
    if not result.accepted:
        click.echo("Nothing was written. Run it again with --accept.")
        return
    click.echo(f"project {result.project_id}, revision {result.project_revision}")
    click.echo(f"{counted(result.work_items, 'work item')} indexed. Next: awr status")


def _refresh(result: Any) -> None:
    table(
        ("source", "action", "freshness", "version", "warnings"),
        [(one.locator, one.action, one.freshness, one.source_revision, one.warnings) for one in result.sources],
    )
    for issue in result.issues:
        where = issue.location or {}
        place = f":{where['line']}:{where['column']}" if "line" in where else ""
        click.echo(click.style(f"{issue.locator}{place}: {issue.message}", fg="yellow"))
    window = result.change_window
    moved = window["after_revision"] != window["through_revision"]
    click.echo(f"revision {result.project_revision}" + ("" if moved else ", unchanged"))


def _sources(result: Any) -> None:
    if not result.sources:
        click.echo("No source is indexed yet. Run awr source reindex.")
        return
    table(
        ("id", "source", "domain", "freshness", "version", "warnings"),
        [(s.id, s.locator, s.domain, s.freshness, s.source_revision, s.warnings) for s in result.sources],
    )


def _source(result: Any) -> None:
    show_fields(result.source)
    if result.entities:
        table(("kind", "key", "version"), [(e.kind, e.external_key, e.revision) for e in result.entities])


def _work(result: Any) -> None:
    work = result.work
    heading(f"{work.external_key}  {work.title}")
    for name in ("status", "owner", "priority", "milestone", "next_action", "blocker", "source_ref", "freshness"):
        value = getattr(work, name)
        if value is not None:
            click.echo(f"  {name.replace('_', ' ') + ':':<13}{value}")
    for number, criterion in enumerate(result.acceptance, start=1):
        click.echo(f"  acceptance {number}: {criterion}")
    for claim in work.active_claims:
        click.echo(f"  held by {claim.agent_id} in session {claim.session_id}")
    if work.ready:
        click.echo("  ready to be claimed")
    for diagnostic in work.diagnostics:
        click.echo(click.style(f"  not ready: {diagnostic.work_item_key}: {diagnostic.detail}", fg="yellow"))


def _session_start(result: Any) -> None:
    click.echo(
        f"session {result.session.id}" + (" (bound already, nothing written)" if result.binding_reused else "")
    )
    if result.claim is not None:
        click.echo(f"claim {result.claim.id}, expires {_expiry(result.claim)}")
    click.echo(f"revision {result.project_revision}")


def _sessions(result: Any) -> None:
    if not result.sessions:
        click.echo("No sessions. Begin one with awr session start.")
        return
    table(
        ("session", "status", "agent", "model", "started", "revision"),
        [
            (s.id, s.status, s.agent_id, s.model, local_time(s.started_at), s.start_project_revision)
            for s in result.sessions
        ],
    )
    if result.next_before_revision is not None:
        click.echo(f"more: --before-revision {result.next_before_revision}")


def _session(result: Any) -> None:
    session = result.session
    heading(f"session {session.id}  [{session.status}]")
    click.echo(f"  {session.agent_id} with {session.model} by {session.provider}")
    click.echo(f"  started {local_time(session.started_at)} at revision {session.start_project_revision}")
    if session.ended_at is not None:
        click.echo(f"  over since {local_time(session.ended_at)}, revision {session.end_project_revision}")
    if result.binding is not None:
        click.echo(f"  conversation {result.binding.conversation} of {result.binding.client}")
    for claim in result.claims:
        click.echo(f"  claim {claim.id} [{claim.status}], expires {_expiry(claim)}")


def _session_end(result: Any) -> None:
    closed = counted(len(result.closed_claim_ids), "claim")
    click.echo(f"session {result.session.id} is {result.session.status}; {closed} closed")
    click.echo(f"revision {result.project_revision}")


def _expiry(claim: Any) -> str:
    return "never" if claim.expires_at is None else local_time(claim.expires_at)


def _compaction(result: Any) -> None:
    heading(f"{result.state.replace('_', ' ')}  (session {result.session})")
    if result.post_compaction_percent is None:
        click.echo("  occupancy after compaction: unknown")
    else:
        percent, threshold = result.post_compaction_percent, result.policy.post_compaction_threshold_percent
        click.echo(f"  occupancy after compaction: {percent:.1f}% (threshold {threshold}%)")
    if result.previous_delta_percentage_points is not None:
        click.echo(f"  change since the one before: {result.previous_delta_percentage_points:+.1f} points")
    if result.observation is not msgspec.UNSET and result.observation is not None:
        click.echo(
            f"  before {_plain(result.observation.before_tokens)}, after {_plain(result.observation.after_tokens)}"
        )
    show_card(result.guidance)
    if result.already_recorded is not msgspec.UNSET:
        done = "already recorded; nothing written" if result.already_recorded else "recorded"
        click.echo(f"{done}: event {result.recorded_event_id}, revision {result.project_revision}")


def _import(result: Any) -> None:
    rows = [
        (one.sequence, one.outcome, one.compaction_id, one.reason or ", ".join(one.differences) or "-")
        for one in result.compactions
    ]
    table(("#", "outcome", "compaction", "why"), rows)
    click.echo(f"{result.recorded} recorded, revision {result.project_revision}")
    show_card(result.guidance)


def _event(result: Any) -> None:
    show_fields(result.event)


def _history(result: Any) -> None:
    if not result.events:
        click.echo("No events match.")
        return
    table(
        ("revision", "time", "type", "summary", "event"),
        [(e.project_revision, local_time(e.created_at), e.type, e.summary, e.id) for e in result.events],
    )
    if result.next_cursor is not None:
        click.echo(f"more: --cursor '{msgspec.json.encode(result.next_cursor).decode()}'")


def _verify(result: Any) -> None:
    click.echo(f"{counted(result.events, 'event')}, revision {result.project_revision}")
    if result.ok:
        click.echo(click.style("The journal is as it was written.", fg="green"))
        click.echo(f"head {result.head}")
        click.echo("Keep the head outside this project: --expect-head shows later whether the end was cut off.")


def _rebuild(result: Any) -> None:
    corrected = sum(result.rows_corrected.values())
    click.echo(f"{counted(result.events, 'event')} read, revision {result.project_revision}")
    click.echo(f"{counted(corrected, 'row')} corrected")
    for name, number in result.rows_corrected.items():
        if number:
            click.echo(f"  {name}: {number}")


def _capabilities(result: Any) -> None:
    click.echo(f"awr {result.program['version']}, host protocol {result.protocol['version']}")
    for one in result.capabilities:
        heading(one.id)
        for command in one.commands:
            click.echo(f"  awr {command}")
        if one.limitations:
            click.echo(f"  limits: {_plain(one.limitations)}")


def _report(result: Any) -> None:
    from awr.surfaces.cli.report_view import print_report

    print_report(result)


_VIEWS: dict[str, View] = {
    "capabilities": _capabilities,
    "report": _report,
    "project.init": _init,
    "project.status": _status,
    "source.list": _sources,
    "source.scan": _refresh,
    "source.reindex": _refresh,
    "source.show": _source,
    "work.show": _work,
    "work.history": _history,
    "session.start": _session_start,
    "session.list": _sessions,
    "session.show": _session,
    "session.end": _session_end,
    "compaction.observe": _compaction,
    "compaction.inspect": _compaction,
    "compaction.defer": _compaction,
    "compaction.import": _import,
    "event.append": _event,
    "event.show": _event,
    "event.history": _history,
    "journal.verify": _verify,
    "journal.rebuild": _rebuild,
}
