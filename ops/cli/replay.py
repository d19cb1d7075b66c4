"""`tally replay`: becomes the process `python -m ingest.sources.replay`, which has the options, so that ops imports nothing of ingest."""

import os
import sys
from pathlib import Path

import typer

_REPOSITORY = Path(__file__).parents[2]
_MODULE = "ingest.sources.replay"


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    passed_on = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command("replay", context_settings=passed_on, add_help_option=False)(replay)


def replay(context: typer.Context) -> None:
    """Send real receipts with seeded duplicates, disorder, lateness, conflicts and bad messages; see `tally replay --help`."""
    path = ":".join(part for part in (str(_REPOSITORY), os.environ.get("PYTHONPATH", "")) if part)
    # Replaced, not started: a signal or a kill meant for the replay reaches it.
    os.execve(sys.executable, [sys.executable, "-m", _MODULE, *context.args], {**os.environ, "PYTHONPATH": path})
