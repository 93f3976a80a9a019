"""Packs of policies, for people."""

from __future__ import annotations

from typing import Any

import click

from awr.surfaces.cli.views import View, counted, heading, table

__all__ = ["VIEWS"]

#: How much of a hash a person compares.
SHORT = 12


def _list(result: Any) -> None:
    table(
        ("pack", "from", "version", "sha256", "what for"),
        [
            (
                pack.name,
                "AWR" if pack.source == "built-in" else "operator",
                pack.version or "-",
                "-" if pack.sha256 is None else pack.sha256[:SHORT],
                pack.purpose or f"cannot be read: {pack.problem}",
            )
            for pack in result.packs
        ],
    )


def _check(result: Any) -> None:
    table(
        ("pack", "version", "rules", "tests", "passed", "result"),
        [
            (pack.name, pack.version or "-", pack.rules, pack.tests, pack.passed, _problem(pack))
            for pack in result.packs
        ],
    )


def _problem(pack: Any) -> str:
    if pack.problem is None:
        return "good" if pack.tests else "loads, and has no tests"
    return f"{pack.where}: {pack.problem}" if pack.where else str(pack.problem)


def _explain(result: Any) -> None:
    heading(f"{result.pack} on {result.action}: {result.decision}")
    if result.reason_codes:
        click.echo("because of " + ", ".join(result.reason_codes))
    for error in result.errors:
        click.echo(f"not evaluated: {error}")
    for rule in result.rules:
        click.echo(f"\n{rule.effect} {rule.name}")
        if rule.lifts:
            click.echo(f"  lifted by: {rule.lifts}")
        if rule.gives_way:
            click.echo(f"  gives way: {rule.gives_way}")
    if not result.rules:
        for text in result.lifts:
            click.echo(f"lifted by: {text}")
    if result.assumed:
        click.echo(f"\n{counted(len(result.assumed), 'fact')} taken as harmless: " + ", ".join(result.assumed))


def _test(result: Any) -> None:
    table(
        ("", "test", "expected", "answered"),
        [
            ("pass" if row.passed else "FAIL", row.name, row.expected, "as expected" if row.passed else row.answered)
            for row in result.tests
        ],
    )


VIEWS: dict[str, View] = {
    "guardian.policy_list": _list,
    "guardian.policy_check": _check,
    "guardian.policy_explain": _explain,
    "guardian.policy_test": _test,
}
