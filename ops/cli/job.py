"""Verbs that become a job of another layer: the job has the options, so that ops imports no layer."""

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import typer

_REPOSITORY = Path(__file__).parents[2]

# Everything that is typed goes on to the job, --help too.
PASSED_ON: dict[str, Any] = {
    "context_settings": {"ignore_unknown_options": True, "allow_extra_args": True},
    "add_help_option": False,
}


def become(module: str, context: typer.Context) -> NoReturn:
    """This process replaced by `python -m module` with the arguments of the verb."""
    path = ":".join(part for part in (str(_REPOSITORY), os.environ.get("PYTHONPATH", "")) if part)
    # Replaced, not started: a signal or a kill meant for the job reaches it.
    os.execve(sys.executable, [sys.executable, "-m", module, *context.args], {**os.environ, "PYTHONPATH": path})
