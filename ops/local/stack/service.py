"""What the stack knows of one service, as data.

That is needs, ports, how it starts, how it shows that it is ready.
"""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tally.settings import Settings


@dataclass(frozen=True)
class Site:
    """One local stack: its settings, and the environment that its services inherit.

    Home and cache are absolute.
    """

    settings: Settings
    environment: Mapping[str, str]

    @classmethod
    def of(cls, settings: Settings, environment: Mapping[str, str]) -> "Site":
        """The site of these settings, with absolute folders.

        A service may so be started from anywhere.
        """
        absolute = {"home": settings.home.absolute(), "cache": settings.cache.absolute()}
        return cls(settings.model_copy(update=absolute), environment)

    @property
    def home(self) -> Path:
        """Absolute TALLY_HOME."""
        return self.settings.home

    def data(self, service: str) -> Path:
        """Folder of one service's own data, made if it is not there."""
        folder = self.home / "data" / service
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def log(self, service: str) -> Path:
        """Log file of one service."""
        return self.home / "logs" / f"{service}.log"

    def run(self, file: str) -> Path:
        """A file of the process records' folder."""
        return self.home / "run" / file

    def trace(self, service: str, kind: str) -> Path:
        """What a service, or its watcher, leaves of one kind: record, heartbeat, end, ..."""
        return self.run(f"{service}.{kind}")


@dataclass(frozen=True)
class Launch:
    """One command, absolute, and what its environment has beyond the site's."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def nothing(site: Site) -> None:
    """The hook of a service that has nothing to do once it is ready."""


@dataclass(frozen=True)
class Service:
    """One supervised service.

    `settings_names` are the addresses it listens on; the first is the one that status shows.

    A `spark_driver` is Python with a JVM below it: neither does any work without the other.
    `answers` is asked of a service without heartbeat, time and again; `secrets` are the variables
    that this service may see and the others not.
    """

    name: str
    launch: Callable[[Site], Launch]
    is_ready: Callable[[Site], bool]
    needs: tuple[str, ...] = ()
    settings_names: tuple[str, ...] = ()
    http: bool = False
    spark_driver: bool = False
    answers: Callable[[Site], bool] | None = None
    secrets: tuple[str, ...] = ()
    once_ready: Callable[[Site], None] = nothing
    stop_signal: signal.Signals = signal.SIGTERM
    start_seconds: float = 120.0
    stop_seconds: float = 20.0

    def address(self, settings: Settings) -> str | None:
        """host:port, http://host:port for an HTTP service, None for one that listens nowhere."""
        if not self.settings_names:
            return None
        address = str(getattr(settings, self.settings_names[0]))
        return f"http://{address}" if self.http else address

    def ports(self, settings: Settings) -> dict[str, tuple[str, int]]:
        """Setting name to the (host, port) that must be free before a start."""
        ports = {}
        for name in self.settings_names:
            host, port = str(getattr(settings, name)).rsplit(":", 1)
            ports[name] = host, int(port)
        return ports
