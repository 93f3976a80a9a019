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
    "guardian.schema": _schema,
}
