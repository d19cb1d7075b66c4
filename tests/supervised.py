"""A run of the tests leaves no process behind, whether it ends, is interrupted or is terminated."""

import os

import pytest

from ops.local.process_tree import fork_supervised


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Runs the tests in a child; this process waits for it and ends what it leaves."""
    if hasattr(config, "workerinput"):
        return
    # Both would else write what was captured until here.
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.suspend_global_capture(in_=True)
    code = fork_supervised()
    if code is not None:
        os._exit(code)
    capture.resume_global_capture()
