"""`python -m serving.alerts.projection`: files the topic `alerts` in Cassandra."""

import sys
from threading import Event

from runtime.connect import cassandra_session
from runtime.heartbeat import Heartbeat
from runtime.job import NotifyingEvent, run_until_stopped, signal_ready
from serving.alerts.projection.projector import Projector
from serving.alerts.projection.tables import AlertTables
from serving.alerts.stream.feed import TOPIC
from tally.settings import Settings


def main() -> int:
    """Exit code: 0 after a stop signal, 1 on an error that a restart may cure, 78 if refused."""
    return run_until_stopped("projector", run)


def run(stopped: Event) -> None:
    """File until stopped. Raises BadSettings, StackError."""
    settings = Settings.load()
    # Read by the watcher, or by the health check of the container.
    heartbeat = Heartbeat(settings.heartbeat_file)
    with cassandra_session(settings) as session:
        projector = Projector(settings, TOPIC, AlertTables(session), heartbeat)
        projector.run(stopped, NotifyingEvent(lambda: signal_ready(settings)))


if __name__ == "__main__":
    sys.exit(main())
