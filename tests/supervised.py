"""A run of the tests leaves no process behind, whether it ends, is interrupted or is terminated."""

import os

import pytest

from ops.local.process_tree import fork_supervised


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Runs the tests in a child; this process waits for it and ends what it leaves."""
    if hasattr(config, "workerinput"):
        return
    # Capturing has been suspended since the conftest files were loaded: both write to the terminal.
    code = fork_supervised()
    if code is not None:
        os._exit(code)
