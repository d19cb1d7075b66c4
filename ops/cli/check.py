"""`tally check`: becomes the process `python -m ingest.check`."""

import typer

from ops.cli.job import PASS_ARGUMENTS, replace_process


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("check", **PASS_ARGUMENTS)(check)


def check(context: typer.Context) -> None:
    """What a file would count as, line by line; nothing is sent. See `tally check --help`."""
    replace_process("ingest.check", context)
