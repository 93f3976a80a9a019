"""Claims, checkpoints, waits, resumed sessions and prepared work, as a person reads them."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from awr.domain.card import Card
from awr.surfaces.cli.views import View, counted, heading, local_time, show_card, table

__all__ = ["VIEWS"]


def _claim(result: Any) -> None:
    claim = result.claim
    until = "" if claim.expires_at is None else f", until {local_time(claim.expires_at)}"
    click.echo(f"claim {claim.id} is {claim.status}, held by {claim.agent_id}{until}")
    if result.expired_claim_ids:
        click.echo(f"{counted(len(result.expired_claim_ids), 'lapsed claim')} closed")
    click.echo(f"revision {result.project_revision}")


def _handoff(result: Any) -> None:
    receiver = f"to session {result.to_session.id}" if result.to_session else "to nobody yet"
    click.echo(f"session {result.from_session.id} handed over {receiver}, with checkpoint {result.checkpoint_id}")
    if result.claim is not None:
        click.echo(f"claim {result.claim.id} moved with it")
    click.echo(f"revision {result.project_revision}")


def _checkpoint(result: Any) -> None:
    saved = result.checkpoint
    heading(f"checkpoint {saved.id} of session {saved.session_id}")
    click.echo(f"  next action: {saved.next_action}")
    for loop in saved.open_loops:
        click.echo(f"  open: {loop}")
    for changed in saved.changed_entities:
        click.echo(f"  the sources changed: {changed}")
    click.echo(f"revision {result.project_revision}")


def _wait(result: Any) -> None:
    _show_wait(result.wait)
    click.echo(f"host: {result.host_action.replace('_', ' ')}; revision {result.project_revision}")


def _waits(result: Any) -> None:
    if not result.waits:
        click.echo("This session and those it continues wait for nothing.")
    for one in result.waits:
        _show_wait(one)


def _show_wait(wait: Any) -> None:
    heading(f"wait {wait.id}  [{wait.status.replace('_', ' ')}]")
    click.echo(f"  asked: {wait.question}")
    if wait.reply is not None:
        click.echo(f"  reply: {wait.reply}")


def _resume(result: Any) -> None:
    if result.resumed is None:
        click.echo("Nothing was written.")
        _show_gaps(msgspec.to_builtins(result.context.completeness))
        return
    resumed = result.resumed
    click.echo(f"session {resumed.session.id} goes on from {resumed.from_session.id} [{resumed.from_session.status}]")
    if resumed.checkpoint is not None:
        click.echo(f"from checkpoint {resumed.checkpoint.id}: {resumed.checkpoint.next_action}")
    for gap in result.recovery_gaps:
        click.echo(click.style(f"missing: {gap.replace('_', ' ')}", fg="yellow"))
    if resumed.claim is not None:
        click.echo(f"claim {resumed.claim.id} is held by {resumed.claim.agent_id}")
    uncertain = sum(one.uncertain for one in result.executions)
    if uncertain:
        click.echo(click.style(f"{counted(uncertain, 'execution')} with an unknown outcome", fg="yellow"))
    if result.context.work_context is not None:
        click.echo(result.context.work_context.rendered_context)
    click.echo(f"revision {result.project_revision}")


def _execution(result: Any) -> None:
    _show_execution(result.execution, uncertain=result.uncertain)
    click.echo(f"revision {result.project_revision}")


def _execution_show(result: Any) -> None:
    _show_execution(result.execution, uncertain=result.uncertain)
    for report in result.reports:
        click.echo(f"  {local_time(report.observed_at)}  {report.phase}  by {report.host_id}: {report.summary}")


def _show_execution(execution: Any, *, uncertain: bool) -> None:
    phase = execution.latest_phase or "not reported"
    heading(f"execution {execution.id}  [{phase}]" + ("  outcome unknown" if uncertain else ""))
    click.echo(f"  {execution.operation_key}: {execution.intent.purpose}")


def _executions(result: Any) -> None:
    if not result.executions:
        click.echo("No executions.")
        return
    rows = [
        (
            one.execution.id,
            one.execution.operation_key,
            one.execution.latest_phase or "-",
            "unknown" if one.uncertain else "-",
        )
        for one in result.executions
    ]
    table(("execution", "key", "phase", "outcome"), rows)


def _assessment(result: Any) -> None:
    decision = result.assessment.decision
    heading(f"{result.assessment.work}: {decision.mode}")
    for reason in decision.reasons:
        click.echo(f"  because {reason.code.replace('_', ' ')} ({reason.basis.replace('_', ' ')})")
    for name in decision.unknown_observations:
        click.echo(f"  unknown: {name.replace('_', ' ')}")
    for action in decision.required_actions:
        click.echo(f"  required: {action.replace('_', ' ')}")
    if result.assessment.record_required:
        click.echo(click.style("  not on record as it stands: awr work manage", fg="yellow"))
    click.echo(f"  contract {result.assessment.contract_fingerprint}")


def _prepared(result: Any) -> None:
    body = result.body
    work = body["work"]
    heading(f"{work['external_key']}  [{work['status']}]  revision {body['project_revision']}")
    if "guidance" in body:
        show_card(msgspec.convert(body["guidance"], Card))
    else:
        click.echo(f"next: {body['next_action'].replace('_', ' ')}")
    if not body["ok"]:
        _show_gaps(body["context"]["completeness"])
    context = body["context"]["work_context"]
    if context is not None:
        click.echo()
        click.echo(context["rendered_context"])


def _show_gaps(completeness: dict[str, Any]) -> None:
    for issue in completeness["issues"]:
        click.echo(click.style(f"  missing: {issue['code']}  {issue['reference'] or ''}".rstrip(), fg="yellow"))


VIEWS: dict[str, View] = {
    "execution.list": _executions,
    "execution.register": _execution,
    "execution.report": _execution,
    "execution.show": _execution_show,
    "session.checkpoint": _checkpoint,
    "session.reply": _wait,
    "session.resume": _resume,
    "session.wait": _wait,
    "session.waits": _waits,
    "work.assess": _assessment,
    "work.claim": _claim,
    "work.handoff": _handoff,
    "work.manage": _assessment,
    "work.prepare": _prepared,
    "work.release": _claim,
}
