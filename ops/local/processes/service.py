"""The description of a service as data: needs, ports, start command, readiness check."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tally.config.settings import Settings


@dataclass(frozen=True)
class Site:
    """One local stack: settings with absolute folders, and what environment services inherit."""

    settings: Settings
    environment: Mapping[str, str]

    @classmethod
    def from_settings(cls, settings: Settings, environment: Mapping[str, str]) -> "Site":
        """The site of these settings, absolute so that a service starts from any folder."""
        absolute = {"home": settings.home.absolute(), "cache": settings.cache.absolute()}
        return cls(settings.model_copy(update=absolute), environment)

    @property
    def home(self) -> Path:
        """Absolute TALLY_HOME."""
        return self.settings.home

    def data(self, service: str) -> Path:
        """The data folder of a service, created if it is missing."""
        folder = self.home / "data" / service
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def log(self, service: str) -> Path:
        """The log file of a service."""
        return self.home / "logs" / f"{service}.log"

    def run(self, file: str) -> Path:
        """A file in the folder of the process records."""
        return self.home / "run" / file

    def write_config(self, template: Path, values: Mapping[str, object]) -> Path:
        """Write the template, with values in place of {name}, as a file of that folder."""
        text = template.read_text("utf-8")
        for name, value in values.items():
            text = text.replace("{" + name + "}", str(value))
        file = self.run(template.name)
        file.write_text(text)
        return file

    def trace(self, service: str, kind: str) -> Path:
        """A file that a service or its watcher writes: record, heartbeat, exit, and so on."""
        return self.run(f"{service}.{kind}")


@dataclass(frozen=True)
class Launch:
    """One command, with an absolute path, and its environment beyond the site's."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Service:
    """One supervised service.

    `settings_names` are the addresses it listens on; the first is the one that status shows.

    A `spark_driver` is Python with a JVM below it: neither works without the other. `answers` is
    polled for a service without heartbeat; `secrets` are the variables that only this service may
    see.
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
    once_ready: Callable[[Site], None] | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    start_seconds: float = 120.0
    stop_seconds: float = 20.0

    def address(self, settings: Settings) -> str | None:
        """The host:port, http://host:port for an HTTP service, None if it does not listen."""
        if not self.settings_names:
            return None
        address = str(getattr(settings, self.settings_names[0]))
        return f"http://{address}" if self.http else address

    def ports(self, settings: Settings) -> dict[str, tuple[str, int]]:
        """The (host, port) that must be free before a start, by setting name."""
        ports = {}
        for name in self.settings_names:
            host, port = str(getattr(settings, name)).rsplit(":", 1)
            ports[name] = host, int(port)
        return ports
