"""A container's command: what it returns is passed on, a refusal is held until somebody stops or
restarts the container."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

Process = subprocess.Popen[str]


@pytest.fixture
def container(request: pytest.FixtureRequest) -> Iterator[Process]:
    """The container's process, its command a shell script."""
    command = [sys.executable, "-m", "runtime.process.container", "/bin/sh", "-c", request.param]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def runs(script: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("container", [script], indirect=True)


@pytest.mark.parametrize(
    ("container", "code"),
    [("exit 0", 0), ("exit 1", 1), ("kill -9 $$", 137)],
    indirect=["container"],
)
def test_end_that_a_new_start_may_heal_is_passed_on(container: Process, code: int) -> None:
    assert container.wait(10) == code


@runs("echo sales-0 has a hole; exit 78")
def test_refusal_is_held_with_its_reason_until_the_container_is_stopped(container: Process) -> None:
    assert container.stdout is not None
    told = [container.stdout.readline(), container.stdout.readline()]
    with pytest.raises(subprocess.TimeoutExpired):
        container.wait(0.5)
    container.send_signal(signal.SIGTERM)

    assert told[0] == "sales-0 has a hole\n" and "refused and not started again" in told[1]
    assert container.wait(10) == 0


@runs("trap 'echo closing; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
def test_stop_reaches_the_command_which_ends_in_its_own_time(container: Process) -> None:
    assert container.stdout is not None
    container.stdout.readline()
    container.send_signal(signal.SIGTERM)

    assert (container.wait(10), container.stdout.read()) == (0, "closing\n")
