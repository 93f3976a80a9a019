"""Ready work, the graph of work and search hits as a person reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from awr.surfaces.cli.views import counted, heading, table

__all__ = ["VIEWS"]


def _ready(result: Any) -> None:
    if result.ready:
        table(
            ("work", "title", "priority", "next action"),
            [(one.external_key, one.title, one.priority or "-", one.next_action or "-") for one in result.ready],
        )
    else:
        click.echo("No work is ready to be claimed.")
    if result.truncated:
        click.echo(f"and {result.ready_total - len(result.ready)} more; see --limit")
    if result.blocked_total:
        reasons = ", ".join(f"{code} {number}" for code, number in result.diagnostic_counts.items())
        click.echo(f"{counted(result.blocked_total, 'work item')} not ready: {reasons}")
    for one in result.blocked_sample:
        for diagnostic in one.diagnostics:
            click.echo(
                click.style(f"  {one.external_key}: {diagnostic.work_item_key}: {diagnostic.detail}", dim=True)
            )


def _graph(result: Any) -> None:
    needs: dict[str, list[str]] = {}
    for edge in result.edges:
        needs.setdefault(edge.source, []).append(edge.target if edge.required else f"{edge.target} (optional)")
    table(
        ("work", "status", "ready", "depends on"),
        [(one.key, one.status, one.ready, ", ".join(needs.get(one.key, ())) or "-") for one in result.nodes],
    )
    if result.affected:
        click.echo(f"affected: {', '.join(result.affected)}")
    for link in result.missing_required:
        click.echo(
            click.style(f"missing: {link.source} depends on {link.target}, which no source names", fg="yellow")
        )
    for circle in result.cycles:
        click.echo(click.style(f"circle: {' -> '.join((*circle, circle[0]))}", fg="yellow"))
    click.echo("the graph is valid" if result.graph_valid else "the graph is not valid")


def _search(result: Any) -> None:
    for one in result.hits:
        name = one.external_key or one.id
        heading(f"{one.kind}  {name}" + (f"  [{one.status}]" if one.status else ""))
        click.echo(f"  {one.title}")
        if one.summary and one.summary != one.title:
            click.echo(f"  {' '.join(one.summary.split())}")
        place = one.source_ref or (f"work {one.work_item_key}" if one.work_item_key else "")
        if place:
            click.echo(click.style(f"  {place}", dim=True))
    if not result.hits:
        click.echo("Nothing was found.")
    if result.truncated:
        click.echo("There is more; see --limit.")


VIEWS: dict[str, Callable[[Any], None]] = {"work.ready": _ready, "work.graph": _graph, "search": _search}
