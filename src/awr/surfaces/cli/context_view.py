"""Compiled context as a person reads it: the text itself, then what it cost and what is missing."""

from __future__ import annotations

from typing import Any

import click

from awr.surfaces.cli.views import View, counted

__all__ = ["VIEWS"]


def _compile(result: Any) -> None:
    work = result.work_context
    if work is None:
        click.echo(result.diagnostic_text)
    else:
        click.echo(work.rendered_context)
        click.echo(
            f"{counted(work.token_estimate, 'token')} of {work.token_budget} ({work.tokenizer}), "
            f"{work.required_tokens} of them required"
        )
        if work.omitted_chunks:
            left_out = ", ".join(chunk.key for chunk in work.omitted_chunks)
            click.echo(f"left out whole, for lack of room: {left_out}")
        click.echo(f"context hash {work.context_hash}")
        click.echo(f"content hash {work.content_hash}")
    completeness = result.completeness
    click.echo(click.style(completeness.status, fg="green" if completeness.complete else "yellow"))
    for issue in completeness.issues:
        click.echo(f"  {issue.code}{f' ({issue.reference})' if issue.reference else ''}: {issue.reason}")


def _bootstrap(result: Any) -> None:
    click.echo(result.rendered_context)
    click.echo(f"{counted(result.token_estimate, 'token')} of {result.token_budget} ({result.tokenizer})")
    for gap in result.context.gaps:
        click.echo(click.style(f"  {gap.code}{f' ({gap.reference})' if gap.reference else ''}", fg="yellow"))


VIEWS: dict[str, View] = {"context.compile": _compile, "context.bootstrap": _bootstrap}
