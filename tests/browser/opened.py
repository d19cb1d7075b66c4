"""The server of served.py as a process, for tests that open its pages."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from tests.support import http

WIDTHS = (1280, 390)
READY = retry(
    stop=stop_after_delay(60),
    wait=wait_fixed(0.2),
    retry=retry_if_exception_type((httpx.HTTPError, AssertionError)),
)


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """Where a server of these arguments answers."""
    command = [sys.executable, "-m", "tests.browser.served", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = f"http://{process.stdout.readline().strip()}"
        try:
            answers(url)
            yield url
        finally:
            process.terminate()


@READY
def answers(url: str) -> None:
    """Returns once it is ready."""
    assert http.get(f"{url}/readyz").status_code == 200
