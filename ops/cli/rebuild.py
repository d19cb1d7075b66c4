"""`tally rebuild`: becomes the process `python -m batch_layer.views.rebuild`, which has the options, so that ops imports no layer."""

import os
import sys
from pathlib import Path

import typer

_REPOSITORY = Path(__file__).parents[2]
_MODULE = "batch_layer.views.rebuild"


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    passed_on = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command("rebuild", context_settings=passed_on, add_help_option=False)(rebuild)


def rebuild(context: typer.Context) -> None:
    """Rebuild the batch views from the master dataset and publish them; see `tally rebuild --help`."""
    path = ":".join(part for part in (str(_REPOSITORY), os.environ.get("PYTHONPATH", "")) if part)
    # Replaced, not started: a signal or a kill meant for the job reaches it.
    os.execve(sys.executable, [sys.executable, "-m", _MODULE, *context.args], {**os.environ, "PYTHONPATH": path})
