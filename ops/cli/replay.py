"""`tally replay`: becomes the process `python -m ingest.replay`."""

import typer

from ops.cli.job import PASS_ARGUMENTS, replace_process


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("replay", **PASS_ARGUMENTS)(replay)


def replay(context: typer.Context) -> None:
    """Send real receipts, disturbed by seed; see `tally replay --help`."""
    replace_process("ingest.replay", context)
