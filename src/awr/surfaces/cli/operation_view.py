"""What became of an identified write, for people."""

from __future__ import annotations

from typing import Any

import click

from awr.surfaces.cli.views import View, heading, table

__all__ = ["VIEWS"]


def _operation(result: Any) -> None:
    body = result.body
    operation = body["operation"]
    heading(f"request {operation['request_id']}  [{operation['status']}]")
    if "tool" in operation:
        _observed(body, operation)
    else:
        how = "refused" if "code" in body or "error" in body else "carried out"
        click.echo(f"It was {how}; the answer is on record. See it with --json.")
    click.echo(f"project revision {body['project_revision']}")


def _observed(body: dict[str, Any], operation: dict[str, Any]) -> None:
    click.echo(f"{operation['tool']}, announced at revision {operation['started_revision']}")
    if body.get("recovered"):
        click.echo("It was carried out: the event below proves it. Compile the context before you go on.")
    elif operation["status"] == "started":
        click.echo("Whether it was carried out is not on record.")
    else:
        click.echo("It was refused." if operation["is_error"] else "It was carried out.")
    rows = [(one["project_revision"], one["event_type"], one["id"]) for one in body["domain_receipts"]]
    if rows:
        table(("revision", "event", "id"), rows)
    else:
        click.echo("It left no event.")


VIEWS: dict[str, View] = {"operation.get": _operation, "operation.recover": _operation}
