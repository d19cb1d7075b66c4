"""`python -m web` as a process: it starts without Cassandra, says so, answers once it is
there, and ends on SIGTERM."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from tally.config.settings import Settings
from tests.support import http

READY = retry(
    stop=stop_after_delay(600),
    wait=wait_fixed(0.2),
    retry=retry_if_exception_type((httpx.HTTPError, AssertionError)),
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def api(home: Path, **variables: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    address = f"127.0.0.1:{free_port()}"
    environment = {**os.environ, "TALLY_HOME": str(home), "TALLY_API": address, **variables}
    process = subprocess.Popen([sys.executable, "-m", "web"], env=environment)
    try:
        yield process, f"http://{address}"
    finally:
        process.kill()
        process.wait(600)


@READY
def answers(url: str, status: int) -> httpx.Response:
    answer = http.get(url, timeout=30)
    assert answer.status_code == status, answer.text
    return answer


def test_process_answers_and_ends_on_sigterm(own_settings: Settings, tmp_path: Path) -> None:
    where = {"TALLY_CASSANDRA": own_settings.cassandra, "TALLY_KEYSPACE": own_settings.keyspace}
    with api(tmp_path, **where) as (process, url):
        assert answers(f"{url}/readyz", 200).json()["ready"] is True
        assert answers(f"{url}/v1/stores", 200).json() == {"stores": [], "next": None}
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 0


def test_process_is_alive_and_answers_503_without_cassandra(tmp_path: Path) -> None:
    with api(tmp_path, TALLY_CASSANDRA=f"127.0.0.1:{free_port()}") as (_, url):
        assert answers(f"{url}/healthz", 200).json() == {"status": "ok"}
        assert answers(f"{url}/readyz", 503).json()["ready"] is False
        problem = answers(f"{url}/v1/metrics/revenue?store=1&from=2017-01-01&to=2017-01-02", 503)
    assert problem.headers["content-type"] == "application/problem+json"


def test_taken_address_is_one_line_and_an_end_that_a_new_start_may_heal(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        environment = {
            **os.environ,
            "TALLY_HOME": str(tmp_path),
            "TALLY_API": f"127.0.0.1:{taken.getsockname()[1]}",
        }
        ended = subprocess.run(
            [sys.executable, "-m", "web"],
            env=environment,
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert (ended.returncode, len(ended.stderr.splitlines())) == (1, 1)
    assert b"Address already in use" in ended.stderr
