"""Serving a team from the command line: the same as `awr-mcp --registry`."""

from __future__ import annotations

from pathlib import Path

import click

from awr.surfaces.mcp.main import DEFAULT_LISTEN

__all__ = ["serve_command"]

#: The record is about every agent and belongs to no single project, so it lies where the operator keeps the registry.
ACS_DATABASE = "acs.db"


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
@click.option(
    "--acs-secret-file",
    "secret_files",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Answer ACS requests at /acs as well, under the secret in this file. May be repeated.",
)
@click.option(
    "--acs-key-id",
    "key_ids",
    multiple=True,
    metavar="ID",
    help="What ACS clients call the secret at the same place; a single one is `default`. May be repeated.",
)
@click.option(
    "--acs-database",
    "database",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"Where the Guardian's record lies; {ACS_DATABASE} beside the registry if left out. It is made when it is "
    "not there.",
)
def serve_command(
    registry: Path, listen: str, secret_files: tuple[Path, ...], key_ids: tuple[str, ...], database: Path | None
) -> None:
    """Serve until a signal ends it."""
    from awr.surfaces.http.main import serve

    guardian = None
    if secret_files or key_ids or database is not None:
        from awr.surfaces.acs.desk import Setup
        from awr.surfaces.acs.options import keys_from

        guardian = Setup(
            keys=keys_from(secret_files, (), key_ids, prefix="--acs-"),
            database=database or registry.absolute().with_name(ACS_DATABASE),
            create=True,
        )
    serve(registry, listen=listen, guardian=guardian)
