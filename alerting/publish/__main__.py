"""`python -m alerting.publish`: files the topic `alerts` in Cassandra."""

import sys
from threading import Event

from alerting.publish.projector import Projector
from alerting.publish.tables import AlertTables
from alerting.stream.feed import TOPIC
from runtime.connect import cassandra_session
from runtime.process.heartbeat import Heartbeat
from runtime.process.job import NotifyingEvent, run_until_stopped, signal_ready
from tally.config.settings import Settings


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
