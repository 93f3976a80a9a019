"""What goes to the terminal: a result on standard output, an error on standard error."""

from __future__ import annotations

import os
from typing import Any

import click
import msgspec

from awr.domain.secrets import refuse_secrets
from awr.errors import AwrError

__all__ = ["colour", "print_error", "print_result"]


def colour() -> bool | None:
    """Return False where NO_COLOR asks for none; None leaves it to whether a terminal is there."""
    return False if os.environ.get("NO_COLOR") else None


def print_result(name: str, result: Any, *, as_json: bool) -> None:
    """Print one result. A result that knows of a problem is printed first, then raises it for the exit code."""
    public = getattr(result, "public", lambda: result)()
    # What came in was looked at. A record from elsewhere, or from before a rule was known, is held back here.
    refuse_secrets(msgspec.to_builtins(public), what="the answer")
    if as_json:
        click.echo(msgspec.json.encode(public).decode())
    else:
        from awr.surfaces.cli.views import view_of  # a program's answer needs no words for people

        view_of(name)(result)
    problem = getattr(result, "problem", lambda: None)()
    if problem is not None:
        raise problem


def print_error(error: AwrError, *, as_json: bool) -> None:
    """Print one error: JSON for a program, or a few lines for a person."""
    if as_json:
        click.echo(msgspec.json.encode(error.report()).decode(), err=True)
        return
    click.echo(f"{click.style('error', fg='red', bold=True)}: {error.code}: {error.what}", err=True, color=colour())
    labels = {"got": "got", "expected": "expected", "actual": "actual", "location": "where"}
    if "actual" in error.details:
        labels["expected"] = "stated"
    for name, label in labels.items():
        if name in error.details:
            click.echo(f"  {label + ':':<10}{_one_line(error.details[name])}", err=True)
    if "next_step" in error.details:
        click.echo(f"  {'next:':<10}{error.details['next_step']}", err=True)


def _one_line(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return str(value)
