"""How changes of work, proposals and evidence are shown to a person."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from awr.surfaces.cli.views import View, counted, heading, local_time

__all__ = ["VIEWS"]

_CHECKS = {
    "equal_to_before": "as it was before the write",
    "equal_to_after": "as it should be after the write",
    "changed": "neither as before nor as after",
    "unavailable": "not readable now",
}


def _proposal(result: Any) -> None:
    proposal, patch = result.proposal, result.proposal.patch
    heading(f"{patch['work_item']}: {proposal.mutation_type.partition('.')[2].replace('_', ' ')} [{proposal.status}]")
    if "to_status" in patch:
        click.echo(f"  {patch['from_status']} -> {patch['to_status']}: {patch['reason']}")
    for name, value in patch["fields"].items():
        click.echo(f"  {name.replace('_', ' ') + ':':<13}{_text(value)}")
    if "evidence_level" in patch:
        click.echo(f"  evidence:    {_text(patch['add_evidence'])} ({patch['evidence_level']})")
    if result.write_outcome == "pending_recovery":
        state = _CHECKS.get(result.source_check, "unknown")
        click.echo(click.style(f"  unfinished; the source is {state}", fg="yellow"))
        click.echo(f"  next: awr proposal recover {proposal.id}")
    else:
        click.echo(f"  source write: {result.write_outcome.replace('_', ' ')}")
    click.echo(f"proposal {proposal.id}, revision {result.project_revision}")


def _prepared(result: Any) -> None:
    heading(f"the report holds; sha256 {result.report_sha256}")
    covered = counted(len(result.completion.acceptance), "criterion").replace("criterions", "criteria")
    click.echo(f"  {covered} covered, {len(result.uncovered)} not")
    for criterion in result.uncovered:
        click.echo(click.style(f"  not covered: {criterion}", fg="yellow"))
    click.echo("  completion input:")
    click.echo(msgspec.json.format(msgspec.json.encode(result.completion), indent=2).decode())
    click.echo("Nothing was written. Record the report with awr evidence add, then run awr work complete.")


def _added(result: Any) -> None:
    click.echo(f"evidence {result.evidence.external_key} [{result.evidence.level}], id {result.evidence.id}")
    click.echo(f"revision {result.project_revision}")


def _evidence(result: Any) -> None:
    for view in result.evidence:
        one = view.evidence
        heading(f"{one.external_key}  [{one.level}, {view.currency}]")
        click.echo(f"  {one.evidence_type}: {one.summary}")
        click.echo(f"  {one.locator}, verified {local_time(one.verified_at)}")
    for reference in result.source_references:
        heading(f"{reference.external_key}  [named by the source, level unknown]")
    if not result.evidence and not result.source_references:
        click.echo("No evidence.")


def _text(value: Any) -> str:
    if value is None:
        return "cleared"
    return value if isinstance(value, str) else "; ".join(value)


_ACTIONS = ("progress", "block", "unblock", "cancel", "reopen", "complete")

VIEWS: dict[str, View] = {
    **{f"transition.{action}": _proposal for action in _ACTIONS},
    "work.create": _proposal,
    "work.activate": _proposal,
    "completion.prepare": _prepared,
    "proposal.show": _proposal,
    "proposal.recover": _proposal,
    "evidence.add": _added,
    "evidence.show": _evidence,
}
