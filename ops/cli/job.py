"""Verbs that become a job of another layer.

The job has the options, so that ops imports no layer.
"""

import os
import sys
from typing import Any, NoReturn

import typer

from runtime.repository import python_path

# All arguments are passed on to the job, --help too.
PASS_ARGUMENTS: dict[str, Any] = {
    "context_settings": {"ignore_unknown_options": True, "allow_extra_args": True},
    "add_help_option": False,
}


def replace_process(module: str, context: typer.Context) -> NoReturn:
    """Replace this process by `python -m module`, with the arguments of the verb."""
    # The process is replaced so that a signal or a kill meant for the job reaches it.
    os.execve(
        sys.executable,
        [sys.executable, "-m", module, *context.args],
        {**os.environ, "PYTHONPATH": python_path(os.environ)},
    )
