"""What a doctor found, and what a backup or restore did, as a person reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from awr.surfaces.cli.views import counted, show_fields

__all__ = ["VIEWS"]


def _doctor(result: Any) -> None:
    for finding in result.findings:
        mark = click.style(finding.severity, fg="red" if finding.severity == "fault" else "yellow")
        about = f" {finding.reference}" if finding.reference else ""
        click.echo(f"{mark}: {finding.code}{about}: {finding.message}")
        if finding.next_step:
            click.echo(f"  next:   {finding.next_step}")
        if finding.repair:
            click.echo(f"  repair: {finding.repair}")
    if not result.findings:
        click.echo(click.style("Nothing is wrong and nothing is unfinished.", fg="green"))
    if result.project_revision is not None:
        click.echo(f"revision {result.project_revision}")


def _backup(result: Any) -> None:
    click.echo(f"{counted(result.files, 'file')}, {result.bytes} bytes, revision {result.project_revision}; verified")
    for place in result.outside:
        click.echo(click.style(f"not in the copy, because it lies outside the project: {place}", fg="yellow"))
    click.echo(f"head {result.head}")


def _restore(result: Any) -> None:
    present = result.present if result.present_revision is None else f"{result.present}, {result.present_revision}"
    click.echo(f"backup of {result.project_id} at revision {result.project_revision}; in place: {present}")
    for one in result.files:
        if one.action != "unchanged":
            click.echo(f"{one.action + ('d' if result.accepted else ''):<9}{one.path}")
    if result.kept_aside is not None:
        click.echo(f"what was replaced is kept in {result.kept_aside}")
    if result.accepted:
        click.echo(f"next: {result.next_action}")
    else:
        click.echo("Nothing was written. Run it again with --accept.")


VIEWS: dict[str, Callable[[Any], None]] = {
    "doctor": _doctor,
    "doctor.repair": show_fields,
    "backup": _backup,
    "restore": _restore,
}
