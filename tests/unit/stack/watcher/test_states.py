"""What `tally status` says of a service that does no work: whether anybody has it in hand, since
when, and why."""

import json
import os
import time

import pytest

from ops.local.processes import supervisor
from ops.local.processes.service import Site
from ops.local.stack import control
from ops.local.stack.watcher import Watcher
from tests.unit.stack.conftest import MakeService
from tests.unit.stack.watcher.watched import REFUSES, SOON, as_if_watched, kill, status


def test_refusal_is_told_apart_also_when_nobody_watches(site: Site, service: MakeService) -> None:
    job = service(script=f"touch $TALLY_READY_FILE; sleep 0.3; {REFUSES}")
    control.up(site, [job], print)
    while supervisor.is_alive(site, job):
        time.sleep(0.02)

    shown = status(site, job)

    assert (shown.state, shown.reason, shown.next_try) == ("failing", "sales-0 has a hole", None)


def test_frozen_service_is_stalled_after_a_while_and_runs_again_when_it_answers(
    site: Site, service: MakeService
) -> None:
    answers = [False]
    server = service(answers=lambda site: answers[0])
    control.up(site, [server], print)
    watcher = Watcher(site, [server], SOON)
    watcher.check_services()
    watcher.probe_services()
    silent = site.trace("job", supervisor.SILENT)
    fresh = status(site, server).state
    os.utime(silent, (time.time() - 61, time.time() - 61))
    watcher.probe_services()
    shown = status(site, server)
    answers[0] = True
    watcher.probe_services()

    assert (fresh, shown.state, status(site, server).state) == ("running", "stalled", "running")
    assert shown.reason == "has not answered for 61 s" and shown.pid is not None


@pytest.mark.parametrize(
    ("at", "moved_at", "expected"),
    [
        (0, 0, None),
        (-59, -59, None),
        (0, -61, "no progress for 61 s while records wait"),
        (-61, -61, "no heartbeat for 61 s"),
    ],
)
def test_job_is_stalled_by_its_heartbeat(
    site: Site, service: MakeService, at: float, moved_at: float, expected: str | None
) -> None:
    job = service()
    control.up(site, [job], print)
    now = time.monotonic()
    site.trace("job", supervisor.HEARTBEAT).write_text(
        json.dumps({"at": now + at, "moved_at": now + moved_at})
    )

    shown = status(site, job)

    assert (shown.state, shown.reason) == ("stalled" if expected else "running", expected)


def test_killed_service_without_a_watcher_has_failed_and_with_one_it_is_failing(
    site: Site, service: MakeService
) -> None:
    job = service()
    control.up(site, [job], print)
    kill(site, job)
    alone = status(site, job)
    as_if_watched(site)

    shown = status(site, job)

    assert (alone.state, alone.next_try) == ("failed", None)
    assert shown.state == "failing" and shown.next_try is not None
