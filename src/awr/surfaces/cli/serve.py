"""Serving a team from the command line: the same as `awr-mcp --registry`."""

from __future__ import annotations

from pathlib import Path

import click

from awr.surfaces.mcp.main import DEFAULT_LISTEN

__all__ = ["serve_command"]


@click.command(
    "serve",
    help="Serve the projects of a registry to authenticated agents on HTTP, until a signal ends it.",
    short_help="Serve projects to a team's agents on HTTP.",
    epilog="Example: awr serve --registry service.toml",
)
@click.option(
    "--registry",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The TOML file that names the projects, and the clients that may use them.",
)
@click.option(
    "--listen",
    default=DEFAULT_LISTEN,
    metavar="ADDR",
    help=f"Where to listen, as host:port; {DEFAULT_LISTEN} if left out, port 0 for any free one.",
)
def serve_command(registry: Path, listen: str) -> None:
    """Serve until a signal ends it."""
    from awr.surfaces.http.main import serve

    serve(registry, listen=listen)
