"""`tally drop`: becomes the process `python -m ingest.drop`."""

import typer

from ops.cli.job import PASS_ARGUMENTS, replace_process


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("drop", **PASS_ARGUMENTS)(drop)


def drop(context: typer.Context) -> None:
    """Send the files of a folder to the gateway, and file them; see `tally drop --help`."""
    replace_process("ingest.drop", context)
