"""The Guardian's record, for people."""

from __future__ import annotations

import json
from typing import Any

import click

from awr.surfaces.cli.views import View, counted, heading, local_time, table

__all__ = ["VIEWS"]

#: How much of a hash or an id a person compares.
SHORT = 12


def _sessions(result: Any) -> None:
    if not result.sessions:
        click.echo("The Guardian has answered no session yet.")
        return
    table(
        ("session", "agent", "began", "state", "entries", "chain head"),
        [
            (
                session.session_id,
                session.agent_id,
                local_time(session.opened_at),
                _state(session),
                session.entries,
                _short(session.chain_hash),
            )
            for session in result.sessions
        ],
    )
    if result.next_after is not None:
        click.echo(f"There are more: --after {result.next_after}")


def _show(result: Any) -> None:
    session = result.session
    heading(f"session {session.session_id}  [{_state(session)}]")
    click.echo(f"agent {session.agent_id}, key {session.key_id}, began {local_time(session.opened_at)}")
    click.echo(f"chain of {_entries(session.entries)}, head {session.chain_hash or 'none yet'}")
    if session.parent_session_id is not None:
        click.echo(f"started by session {session.parent_session_id}")
    for child in result.subagents:
        click.echo(f"started session {child}")
    origins = result.provenance_summary.get("entry_count_by_origin", {})
    if origins:
        click.echo("origins: " + ", ".join(f"{origin} in {number}" for origin, number in origins.items()))
    if not result.entries:
        return
    click.echo()
    table(
        ("#", "received", "step", "about", "decision", "why", "hash"),
        [
            (
                entry.position,
                local_time(entry.received_at),
                entry.step_type,
                _about(entry.facts or {}),
                entry.decision,
                ", ".join((*entry.reason_codes, *entry.findings)) or "-",
                _short(entry.entry_hash),
            )
            for entry in result.entries
        ],
    )
    if result.next_after is not None:
        click.echo(f"There are more: --after {result.next_after}")


def _verify(result: Any) -> None:
    if result.ok:
        click.echo(f"{counted(result.sessions, 'chain')} with {_entries(result.entries)}: every link holds.")
        return
    if result.broken:
        table(
            ("session", "#", "what is wrong"),
            [(broken.session_id, broken.position, broken.problem) for broken in result.broken],
        )


def _export(result: Any) -> None:
    click.echo(f"Wrote {result.entries + 1} lines, {result.bytes} bytes, sha256 {result.sha256}")
    click.echo(f"chain head {result.chain_hash or 'none yet'}")


def _decisions(result: Any) -> None:
    if not result.decisions:
        click.echo("Nothing was asked about a fold, and everything else was allowed.")
        return
    table(
        ("received", "session", "step", "decision", "why", "step id"),
        [
            (
                local_time(row.received_at),
                _short(row.session_id),
                row.step_type,
                row.decision,
                ", ".join((*row.reason_codes, *row.findings)) or "-",
                row.step_id,
            )
            for row in result.decisions
        ],
    )
    if result.next_after is not None:
        click.echo(f"There are more: --after {result.next_after}")


def _decision(result: Any) -> None:
    row, verdict = result.decision, result.verdict
    heading(f"{row.step_type} {row.step_id}  [{row.decision}]")
    click.echo(f"session {row.session_id}, entry {row.position}, {local_time(row.received_at)}")
    if row.reason_codes or row.findings:
        click.echo("why: " + ", ".join((*row.reason_codes, *row.findings)))
    if "reasoning" in verdict:
        click.echo(verdict["reasoning"])
    for reference in verdict.get("policy_references", ()):
        rule = reference.get("policy_id", "")
        pack = " ".join(filter(None, (reference.get("policy_name"), reference.get("policy_version"))))
        click.echo(f"rule {rule}" + (f" of {pack}" if pack else ""))
    for paradigm, facts in verdict.get("policy_data", {}).items():
        click.echo(f"{paradigm}: " + ", ".join(f"{name} {value}" for name, value in facts.items()))
    if verdict.get("cited_provenance_ids"):
        click.echo("data: " + ", ".join(verdict["cited_provenance_ids"]))


def _lineage(result: Any) -> None:
    known = {row.provenance_id: row for row in result.data}
    shown: set[str] = set()
    pending = [(result.data[0].provenance_id, 0)]
    while pending:
        name, depth = pending.pop()
        row = known[name]
        what = f"{row.origin}, {row.trust}" if row.origin is not None else "not on record"
        source = f", from {row.source_id}" if row.source_id is not None else ""
        again = "  (shown above)" if name in shown and row.derived_from else ""
        click.echo(f"{'  ' * depth}{name}  [{what}{source}]{again}")
        if name not in shown:
            pending += [(under, depth + 1) for under in reversed(row.derived_from)]
        shown.add(name)


def _endorse(result: Any) -> None:
    what = f"{result.endorsed} of the session's data to {result.trust}"
    if result.recorded:
        click.echo(f"Raised {what}: endorsement {result.number}, confirmed by {result.confirmed_by}.")
    else:
        click.echo(f"Would raise {what}. Nothing is recorded; add --accept to record it.")


def _schema(result: Any) -> None:
    click.echo(json.dumps(result.payload, indent=2))


def _state(session: Any) -> str:
    return "open" if session.sealed_at is None else "sealed"


def _entries(number: int) -> str:
    return "1 entry" if number == 1 else f"{number} entries"


def _short(text: str | None) -> str:
    return "none yet" if text is None else text[:SHORT]


def _about(facts: dict[str, Any]) -> str:
    """Return the one name that tells a step from its neighbours, and the size of what was sent."""
    names = ("tool_name", "skill_id", "subagent_session_id", "triggered_by", "trigger_type", "outcome", "reason")
    name = next((str(facts[key]) for key in names if key in facts), "")
    size = f"{facts.get('payload_bytes', 0)} bytes"
    return f"{name}, {size}" if name else size


VIEWS: dict[str, View] = {
    "guardian.sessions": _sessions,
    "guardian.show": _show,
    "guardian.verify": _verify,
    "guardian.export": _export,
    "guardian.decisions": _decisions,
    "guardian.decision": _decision,
    "guardian.lineage": _lineage,
    "guardian.endorse": _endorse,
    "guardian.schema": _schema,
}
