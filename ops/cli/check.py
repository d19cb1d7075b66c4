"""`tally check`: becomes the process `python -m ingest.check`."""

import typer

from ops.cli.job import PASSED_ON, become


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("check", **PASSED_ON)(check)


def check(context: typer.Context) -> None:
    """What a file would count as, line by line; nothing is sent. See `tally check --help`."""
    become("ingest.check", context)
