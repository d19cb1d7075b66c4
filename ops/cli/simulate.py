"""`tally simulate`: becomes the process `python -m ingest.twin`."""

import typer

from ops.cli.job import PASS_ARGUMENTS, replace_process


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("simulate", **PASS_ARGUMENTS)(simulate)


def simulate(context: typer.Context) -> None:
    """Let twin stores send what their sensors see; see `tally simulate --help`."""
    replace_process("ingest.twin", context)
