"""A supervised service: what killed means, what is left alone, what is ended with it."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from ops.local.machine import port_is_free
from ops.local.processes import processes
from ops.local.processes.processes import Record
from ops.local.processes.service import Service, Site
from ops.local.stack import control
from tally.errors import StackError
from tests.unit.stack.conftest import READY_WITH_CHILD, READY_WITH_JVM, MakeService


def up(site: Site, *services: Service) -> list[str]:
    told: list[str] = []
    control.up(site, services, told.append)
    return told


def pid_of(site: Site, service: Service) -> int:
    pid = control.service_status(site, service).pid
    assert pid is not None
    return pid


def kill(pid: int) -> None:
    process = psutil.Process(pid)
    process.send_signal(signal.SIGKILL)
    processes.wait_until_ended([process], 5)


def test_service_never_started_is_stopped(site: Site, service: MakeService) -> None:
    status = control.service_status(site, service())

    assert (status.state, status.pid) == ("stopped", None)


def test_service_that_is_up_is_running(site: Site, service: MakeService) -> None:
    job = service()

    told = up(site, job)

    assert control.service_status(site, job).state == "running"
    assert told[0] == "job: starting" and told[1].startswith("job: ready after ")


def test_running_service_keeps_its_process(site: Site, service: MakeService) -> None:
    job = service()
    up(site, job)
    before = pid_of(site, job)

    told = up(site, job)

    assert (pid_of(site, job), told) == (before, ["job: runs already"])


def test_killed_service_is_failed_and_up_brings_it_back(site: Site, service: MakeService) -> None:
    job = service()
    up(site, job)
    before = pid_of(site, job)
    kill(before)

    failed = control.service_status(site, job)
    up(site, job)

    assert (failed.state, failed.pid) == ("failed", None)
    assert control.service_status(site, job).state == "running" and pid_of(site, job) != before


def test_up_ends_the_child_of_a_killed_service_before_it_starts_it_again(
    site: Site, service: MakeService
) -> None:
    driver = service(script=READY_WITH_CHILD)
    up(site, driver)
    [orphan] = psutil.Process(pid_of(site, driver)).children()
    kill(pid_of(site, driver))
    alive_without_parent = not processes.has_ended(orphan)

    up(site, driver)

    assert alive_without_parent and processes.has_ended(orphan)


def test_spark_driver_without_its_jvm_has_failed_though_its_python_lives(
    site: Site, service: MakeService
) -> None:
    driver = service(script=READY_WITH_JVM, spark_driver=True)
    up(site, driver)
    python = psutil.Process(pid_of(site, driver))
    [jvm] = python.children()
    kill(jvm.pid)

    failed = control.service_status(site, driver).state
    lived_on = not processes.has_ended(python)
    told = up(site, driver)

    assert (failed, lived_on, told[0], processes.has_ended(python)) == (
        "failed",
        True,
        "job: starting",
        True,
    )
    assert up(site, driver) == ["job: runs already"]


def test_down_ends_the_child_of_a_killed_service(site: Site, service: MakeService) -> None:
    driver = service(script=READY_WITH_CHILD)
    up(site, driver)
    [orphan] = psutil.Process(pid_of(site, driver)).children()
    kill(pid_of(site, driver))

    control.down(site, [driver], print)

    assert processes.has_ended(orphan)
    assert control.service_status(site, driver).state == "stopped"


def test_down_ends_a_service_that_ignores_the_polite_signal(
    site: Site, service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "LEFTOVER_SECONDS", 0.5)
    stubborn = service(
        script="trap '' TERM; touch $TALLY_READY_FILE; while :; do sleep 0.1; done",
        stop_seconds=0.2,
    )
    up(site, stubborn)
    process = psutil.Process(pid_of(site, stubborn))

    control.down(site, [stubborn], print)

    assert processes.has_ended(process)


def test_another_process_with_the_recorded_pid_is_neither_running_nor_killed(
    site: Site, service: MakeService
) -> None:
    job = service()
    site.run("job.json").parent.mkdir(parents=True)
    processes.write_record(
        site.run("job.json"), Record(os.getpid(), create_time=1.0, argv=("old",), ready=True)
    )

    state = control.service_status(site, job).state
    control.down(site, [job], print)

    assert state == "failed" and psutil.Process().is_running()


def test_service_of_another_home_is_left_alone(site: Site, service: MakeService) -> None:
    job = service()
    up(site, job)
    mark = f"{site.home}:{job.name}"

    processes.end_leftovers(f"{site.home}-other:{job.name}")

    assert [process.pid for process in processes.find_marked_processes(mark)] == [pid_of(site, job)]


# Its first thread goes, as that of a JVM that is killed may; another still has the port.
DYING = """
import ctypes, os, socket, threading, time
held = socket.create_server(("127.0.0.1", 0))
print(held.getsockname()[1], flush=True)
threading.Thread(target=lambda: (time.sleep(1.5), os._exit(0))).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_port_of_a_process_that_has_not_wholly_ended_is_waited_for(
    site: Site, service: MakeService
) -> None:
    with subprocess.Popen([sys.executable, "-c", DYING], stdout=subprocess.PIPE) as dying:
        assert dying.stdout is not None
        port = int(dying.stdout.readline())
        wait_until_first_thread_is_gone(psutil.Process(dying.pid))
        assert not port_is_free("127.0.0.1", port)
        web = service(name="gateway", settings_names=("gateway",))

        told = up(gateway_at(site, port), web)

    assert told[1].startswith("gateway: ready after ")


def gateway_at(site: Site, port: int) -> Site:
    settings = site.settings.model_copy(update={"gateway": f"127.0.0.1:{port}"})
    return Site.from_settings(settings, site.environment)


def wait_until_first_thread_is_gone(process: psutil.Process) -> None:
    deadline = time.monotonic() + 5
    while process.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_busy_port_is_named_with_its_setting(site: Site, service: MakeService) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        web = service(name="gateway", settings_names=("gateway",))

        with pytest.raises(
            StackError,
            match=f"gateway: port {port} on 127.0.0.1 is busy .*set TALLY_GATEWAY=127.0.0.1:PORT",
        ):
            up(gateway_at(site, port), web)


def test_service_that_ends_while_it_starts_says_its_last_words(
    site: Site, service: MakeService
) -> None:
    broken = service(script="echo no such topic >&2; exit 3")

    with pytest.raises(
        StackError, match=r"job: ended while it started \(no such topic\); see .*job.log"
    ):
        up(site, broken)


def test_service_that_never_gets_ready_meets_its_deadline(site: Site, service: MakeService) -> None:
    silent = service(script="exec sleep 60", start_seconds=0.3)

    with pytest.raises(StackError, match=r"job: not ready after 0 s; see .*job.log"):
        up(site, silent)
    assert control.service_status(site, silent).state == "starting"
