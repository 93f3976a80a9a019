"""Bound conversations, as a person reads them."""

from __future__ import annotations

from typing import Any

import click

from awr.surfaces.cli.views import View, counted, heading, local_time

__all__ = ["VIEWS"]


def _bind(result: Any) -> None:
    _show_binding(result.binding)
    if result.binding_reused:
        click.echo("  bound already, nothing written")
    uncertain = sum(one.uncertain for one in result.executions)
    if uncertain:
        click.echo(click.style(f"  {counted(uncertain, 'execution')} with an unknown outcome", fg="yellow"))
    click.echo(result.context.rendered_context)
    for gap in result.context.context.gaps:
        click.echo(click.style(f"  {gap.code}{f' ({gap.reference})' if gap.reference else ''}", fg="yellow"))
    click.echo(f"revision {result.project_revision}")


def _progress(result: Any) -> None:
    _show_binding(result.binding)
    click.echo(f"revision {result.project_revision}")


def _show(result: Any) -> None:
    if result.binding is None:
        click.echo("This conversation is not bound. Bind it with awr client bind.")
        return
    _show_binding(result.binding)


def _show_binding(binding: Any) -> None:
    heading(f"conversation {binding.external_session} of {binding.client}")
    click.echo(f"  session {binding.session_id}, last heard of {local_time(binding.observed_at)}")
    if binding.digest is not None:
        click.echo(f"  digest: {binding.digest}")
    if binding.next_action is not None:
        click.echo(f"  next action: {binding.next_action}")
    for loop in binding.open_loops:
        click.echo(f"  open: {loop}")


VIEWS: dict[str, View] = {"client.bind": _bind, "client.progress": _progress, "client.show": _show}
