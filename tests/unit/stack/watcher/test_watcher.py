"""The watcher: what ended by itself is started again, later each time, after what it needs, and
not at all where that cannot help."""

import json
import shutil
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from ops.local.processes import processes, supervisor
from ops.local.processes.service import Service, Site
from ops.local.services import catalogue
from ops.local.stack import control
from ops.local.stack.watcher import (
    RestartPolicy,
    RestartState,
    Watcher,
    read_restart_state,
    watch,
    watcher_file,
    watcher_runs,
)
from tests.unit.stack.conftest import READY, READY_WITH_JVM, MakeService
from tests.unit.stack.watcher.watched import REFUSES, SOON, Disk, as_if_watched, kill, status, until

# Up the first time, ended at once from then on.
ONCE = (
    "test -e $TALLY_HOME/was-up && { echo disk full >&2; exit 1; }; touch $TALLY_HOME/was-up; "
    + READY
)


def watched(site: Site, *services: Service) -> Watcher:
    """The services up, and a watcher that has seen them."""
    control.up(site, services, print)
    watcher = Watcher(site, services, SOON)
    watcher.check_services()
    return watcher


def test_killed_service_comes_back_by_itself(site: Site, service: MakeService) -> None:
    job = service()
    watcher = watched(site, job)
    before = kill(site, job)

    until(lambda: status(site, job).state == "running", watcher)

    assert status(site, job).pid != before


def test_spark_driver_whose_jvm_was_killed_comes_back(site: Site, service: MakeService) -> None:
    driver = service(script=READY_WITH_JVM, spark_driver=True)
    watcher = watched(site, driver)
    python = supervisor.working_process(site, driver)
    assert python is not None
    [jvm] = python.children()
    jvm.send_signal(signal.SIGKILL)
    processes.wait_until_ended([jvm], 5)

    until(lambda: supervisor.is_alive(site, driver), watcher)

    assert status(site, driver).pid != python.pid and processes.has_ended(python)


def test_new_start_has_the_environment_of_the_first_though_the_watcher_has_another(
    site: Site, service: MakeService
) -> None:
    told = Site.from_settings(site.settings, {**site.environment, "TALLY_PARTITIONS": "7"})
    job = service(script="echo partitions $TALLY_PARTITIONS; " + READY)
    control.up(told, [job], print)
    watcher = Watcher(site, [job], SOON)
    watcher.check_services()
    kill(site, job)

    until(lambda: status(site, job).state == "running", watcher)

    assert site.log("job").read_text().splitlines() == ["partitions 7", "partitions 7"]


def test_each_try_comes_later_up_to_a_limit() -> None:
    patience, failing, waits = RestartPolicy(), RestartState(0.0, "why"), []
    while not failing.given_up:
        failing = failing.record_try().record_end("why", False, patience, now=100.0)
        waits.append(failing.next_try and failing.next_try - 100.0)

    assert waits == [2, 4, 8, 16, 32, 60, 60, None]


def test_first_try_comes_after_a_second_and_a_clock_set_back_does_not_put_it_off() -> None:
    failing = RestartState(0.0, "why").record_end("why", False, RestartPolicy(), now=100.0)

    assert failing.next_try == 101.0
    assert [failing.is_due(RestartPolicy(), now) for now in (100.9, 101.0, 41.1, 40.9)] == [
        False,
        True,
        False,
        True,
    ]


def test_service_that_cannot_start_is_given_up_with_its_reason_after_its_tries(
    site: Site, service: MakeService
) -> None:
    job = service(script=ONCE)
    watcher = watched(site, job)
    as_if_watched(site)
    kill(site, job)

    until(lambda: bool((known := read_restart_state(site, job)) and known.given_up), watcher)

    failing = read_restart_state(site, job)
    shown = status(site, job)
    assert failing is not None and failing.tries == SOON.tries
    assert (shown.state, shown.next_try, shown.pid) == ("failing", None, None)
    assert shown.since and shown.reason and "disk full" in shown.reason


def test_up_by_hand_begins_anew_with_what_was_given_up(site: Site, service: MakeService) -> None:
    job = service(script=ONCE)
    watcher = watched(site, job)
    kill(site, job)
    until(lambda: bool((known := read_restart_state(site, job)) and known.given_up), watcher)
    (site.home / "was-up").unlink()

    control.up(site, [job], print)

    assert (status(site, job).state, read_restart_state(site, job)) == ("running", None)


def test_refusal_is_not_started_again(site: Site, service: MakeService) -> None:
    job = service(
        script=(
            f"test -e $TALLY_HOME/refuse && {{ echo one more >> $TALLY_HOME/refuse; {REFUSES}; }};"
            f" {READY}"
        )
    )
    watcher = watched(site, job)
    (site.home / "refuse").touch()
    kill(site, job)
    until(lambda: bool((known := read_restart_state(site, job)) and known.given_up), watcher)
    for _ in range(30):
        watcher.check_services()

    shown = status(site, job)

    assert (site.home / "refuse").read_text().splitlines() == ["one more"]
    assert (shown.state, shown.reason, shown.next_try) == ("failing", "sales-0 has a hole", None)


def test_old_refusal_is_gone_before_the_next_start(site: Site, service: MakeService) -> None:
    job = service()
    site.run("").mkdir()
    site.trace("job", "exit").write_text(json.dumps({"code": 78, "reason": "of an earlier run"}))
    watcher = watched(site, job)
    kill(site, job)

    until(lambda: status(site, job).state == "running", watcher)


def test_ended_service_waits_for_what_it_needs_and_that_costs_no_try(
    site: Site, service: MakeService
) -> None:
    broker = service("kafka", script="test -e $TALLY_HOME/broken && exit 1; " + READY)
    job = service("job", needs=("kafka",))
    watcher = watched(site, broker, job)
    (site.home / "broken").touch()
    kill(site, broker)
    kill(site, job)
    until(lambda: bool((known := read_restart_state(site, broker)) and known.given_up), watcher)
    waiting = read_restart_state(site, job)
    (site.home / "broken").unlink()
    control.up(site, [broker], print)

    until(lambda: status(site, job).state == "running", watcher)

    assert waiting is not None and (
        waiting.tries,
        waiting.reason.endswith("; waits for kafka"),
    ) == (0, True)


def test_nothing_is_started_again_on_a_full_disk_and_that_costs_no_try(
    site: Site, service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = service()
    watcher = watched(site, job)
    free = [10**8]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(10**12, 10**12, free[-1]))
    kill(site, job)
    reason = f"; waits for disk: 0.1 GB free at {site.home}, 0.25 GB are needed"
    until(
        lambda: bool((known := read_restart_state(site, job)) and reason in known.reason), watcher
    )
    waiting = read_restart_state(site, job)
    free.append(10**9)

    until(lambda: status(site, job).state == "running", watcher)
    assert waiting and waiting.tries == 0


def test_service_that_was_stopped_by_hand_stays_down(site: Site, service: MakeService) -> None:
    job, other = service(), service("other")
    watcher = watched(site, job, other)

    control.down(site, [job], print)
    for _ in range(20):
        watcher.check_services()

    assert (status(site, job).state, status(site, other).state) == ("stopped", "running")


def test_nothing_is_begun_while_up_or_down_is_at_work(site: Site, service: MakeService) -> None:
    job = service()
    watcher = watched(site, job)
    kill(site, job)

    with supervisor.try_lock_stack(site) as alone:
        for _ in range(20):
            watcher.check_services()
            time.sleep(0.01)
        begun = site.trace("job", supervisor.FAILING).exists()

    assert (alone, begun) == (True, False)


def test_steady_work_begins_the_count_anew(site: Site, service: MakeService) -> None:
    job = service()
    watcher = watched(site, job)
    kill(site, job)
    until(lambda: status(site, job).state == "running", watcher)
    counted = read_restart_state(site, job)

    until(lambda: read_restart_state(site, job) is None, watcher)

    assert counted is not None and counted.tries == 1


def test_watching_goes_on_after_an_error_and_ends_when_no_watcher_is_recorded(
    site: Site, service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = service()
    monkeypatch.setattr(catalogue, "SERVICES", {"job": job})
    monkeypatch.setattr("ops.local.stack.watcher.CHECK_EVERY_SECONDS", 0.02)
    control.up(site, [job], print)
    (lock := site.run("lock")).rename(hidden := site.run("hidden"))
    own = psutil.Process()
    processes.write_record(
        watcher_file(site), processes.Record(own.pid, own.create_time(), ("watcher",))
    )
    watching_thread = threading.Thread(target=watch, args=(site,))
    watching_thread.start()
    try:
        kill(site, job)
        hidden.rename(lock)
        deadline = time.monotonic() + 20
        while status(site, job).state != "running":
            assert time.monotonic() < deadline, "it never came back"
            time.sleep(0.05)
    finally:
        watcher_file(site).unlink()
        watching_thread.join(10)

    assert not watching_thread.is_alive()


def test_watcher_process_begins_with_the_first_service_and_ends_with_the_last(
    site: Site, service: MakeService, tmp_path: Path
) -> None:
    job, other = service(), service("other")
    control.watch(site)
    before = watcher_runs(site)
    control.up(site, [job, other], print)
    control.watch(site)
    first = processes.read_record(watcher_file(site))
    control.watch(site)
    control.down(site, [job], print)
    still = watcher_runs(site)
    again = processes.read_record(watcher_file(site))
    control.down(site, [other], print)

    assert (before, still, watcher_runs(site)) == (False, True, False)
    assert first is not None and first == again and processes.find_recorded_process(first) is None


def test_killed_watcher_is_followed_by_another_at_the_next_up(
    site: Site, service: MakeService
) -> None:
    control.up(site, [service()], print)
    control.watch(site)
    first = processes.find_recorded_process(processes.read_record(watcher_file(site)))
    assert first is not None
    first.send_signal(signal.SIGKILL)
    processes.wait_until_ended([first], 5)
    gone = watcher_runs(site)
    control.watch(site)

    assert (gone, watcher_runs(site)) == (False, True)
