"""`up`, `down` and `status` of the whole stack: order, deadlines, one caller at a time."""

import fcntl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ops.local.stack import states, supervisor, watching
from ops.local.stack.private import make_private
from ops.local.stack.service import Service, Site
from ops.local.stack.states import ServiceStatus
from tally.errors import RestartNeeded, StackError, TallyError

LOOK_EVERY_SECONDS = 0.1

Tell = Callable[[str], None]


@dataclass
class _Bringing:
    """How far `up` is: what waits, what was started and when, what is ready, what failed and why.

    It also knows what ran before, and what it had to restart.
    """

    waiting: list[Service]
    started: dict[str, tuple[Service, float]] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    restarted: set[str] = field(default_factory=set)
    ready: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)


def up(site: Site, services: Sequence[Service], tell: Tell) -> None:
    """Every service of `services` running and ready, needs included, in start order.

    Those that run already keep their process.

    Raises StackError that names each service which did not come up, after the others have.
    """
    with _alone(site):
        bringing = _Bringing(list(services))
        while bringing.waiting or bringing.started:
            _start_what_can_start(site, bringing, tell)
            _look_at_started(site, bringing, tell)
            if bringing.started:
                time.sleep(LOOK_EVERY_SECONDS)
    if bringing.failed:
        raise StackError("; ".join(f"{name}: {reason}" for name, reason in bringing.failed.items()))


def down(site: Site, services: Sequence[Service], tell: Tell) -> None:
    """None of the services runs, nothing that they started either.

    Those that others need end after them, Kafka last.
    """
    with _alone(site):
        left = list(services)
        while left:
            needed = {need for service in left for need in service.needs}
            # Kafka goes alone and last: whoever closes down may still commit to it.
            wave = [
                service
                for service in left
                if service.name not in needed and (service.name != "kafka" or len(left) == 1)
            ]
            asked = [(service, supervisor.ask_to_stop(site, service)) for service in wave]
            for service, process in asked:
                supervisor.finish_stop(site, service, process)
                if process is not None:
                    tell(f"{service.name}: stopped")
            left = [service for service in left if service not in wave]
        watching.end_if_idle(site)


def watch(site: Site) -> None:
    """What was started and has ended by itself is started again from now on."""
    with _alone(site):
        watching.ensure(site)


def status(site: Site, services: Sequence[Service]) -> dict[str, ServiceStatus]:
    """By service's name its state, in start order."""
    return {service.name: states.status_of(site, service) for service in services}


def _start_what_can_start(site: Site, bringing: _Bringing, tell: Tell) -> None:
    for service in list(bringing.waiting):
        broken = [need for need in service.needs if need in bringing.failed]
        if broken:
            bringing.waiting.remove(service)
            bringing.failed[service.name] = f"not started, it needs {', '.join(broken)}"
        elif set(service.needs) <= bringing.ready:
            bringing.waiting.remove(service)
            _start(site, service, bringing, tell)


def _start(site: Site, service: Service, bringing: _Bringing, tell: Tell) -> None:
    try:
        if supervisor.is_alive(site, service):
            bringing.kept.add(service.name)
        else:
            tell(f"{service.name}: starting")
            # By hand it begins anew: the tries of before do not count.
            site.trace(service.name, supervisor.FAILING).unlink(missing_ok=True)
            supervisor.start(site, service)
        bringing.started[service.name] = (service, time.monotonic())
    except TallyError as error:
        bringing.failed[service.name] = str(error).removeprefix(f"{service.name}: ")


def _look_at_started(site: Site, bringing: _Bringing, tell: Tell) -> None:
    for name, (service, since) in list(bringing.started.items()):
        seconds = time.monotonic() - since
        try:
            if _came_up(site, service, seconds):
                # Also for one that ran before: a changed setting is to reach topics that exist.
                service.once_ready(site)
                bringing.ready.add(name)
                how = "runs already" if name in bringing.kept else f"ready after {seconds:.1f} s"
                tell(f"{name}: {how}{_at(site, service)}")
            else:
                continue
        except RestartNeeded as error:
            _restart(site, service, bringing, tell, error)
            continue
        except TallyError as error:
            bringing.failed[name] = str(error).removeprefix(f"{name}: ")
        del bringing.started[name]


def _restart(
    site: Site, service: Service, bringing: _Bringing, tell: Tell, why: RestartNeeded
) -> None:
    """The service stopped and started once more; failed when that was done before."""
    del bringing.started[service.name]
    if service.name in bringing.restarted:
        bringing.failed[service.name] = str(why)
        return
    tell(f"{service.name}: restarting ({why})")
    bringing.restarted.add(service.name)
    bringing.kept.discard(service.name)
    supervisor.finish_stop(site, service, supervisor.ask_to_stop(site, service))
    _start(site, service, bringing, tell)


def _came_up(site: Site, service: Service, seconds: float) -> bool:
    """Whether it is ready; StackError if it ended or takes longer than its deadline."""
    # First: a ready file outlives the process that has touched it.
    if not supervisor.is_alive(site, service):
        raise StackError(
            f"ended while it started ({supervisor.why_ended(site, service)[1]});"
            f" see {site.log(service.name)}"
        )
    if supervisor.is_ready(site, service):
        return True
    if seconds > service.start_seconds:
        raise StackError(
            f"not ready after {service.start_seconds:.0f} s;"
            f" see {site.log(service.name)}, then run `up` again"
        )
    return False


def _at(site: Site, service: Service) -> str:
    address = service.address(site.settings)
    return f" at {address}" if address else ""


@contextmanager
def _alone(site: Site) -> Iterator[None]:
    """Holds the stack's lock: two `tally up` at once would start everything twice."""
    try:
        make_private(site.home)
        site.run("lock").parent.mkdir(exist_ok=True)
        with site.run("lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except PermissionError as error:
        raise StackError(
            f"folder {site.home}: cannot be written ({error.strerror});"
            " make it writable or set TALLY_HOME"
        ) from error


@contextmanager
def alone_or_not(site: Site) -> Iterator[bool]:
    """Whether the stack's lock was free; if so it is held meanwhile.

    Raises FileNotFoundError when the home has gone.
    """
    # r+: a home that has gone is not made again by its own watcher.
    with site.run("lock").open("r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
