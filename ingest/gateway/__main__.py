"""`python -m ingest.gateway`: the HTTP endpoints on the settings' address."""

import sys
from threading import Event, Thread

from ingest.gateway.app import build_app
from ingest.gateway.async_producer import AsyncProducer, BrokerConnectivity, InFlightLimit
from ingest.gateway.backlog import Backlog, BacklogBounds, BacklogMonitor
from ingest.gateway.submission import BodyChecker, endpoints
from ingest.installation.arrival import Rules
from runtime.connect import brokers_answer, kafka_producer
from runtime.http.server import ServerOptions, serve
from runtime.process.job import run_job
from tally.config.settings import Settings
from tally.errors import StackError

_IN_FLIGHT_LIMIT = InFlightLimit(messages=50_000, bytes=64 * 1024 * 1024)
_DELIVERY_SECONDS = 15
# A thread that checks a large body yields to the event loop after this time, not after Python's
# default of five milliseconds.
_SWITCH_SECONDS = 0.001


def main() -> int:
    """Exit code: 0 stopped, 1 an error that a restart may fix, 78 wrong settings."""
    return run_job("gateway", lambda: run(Settings.load()))


def run(settings: Settings) -> None:
    """Serve until stopped. Raises StackError if messages can no longer be sent or acknowledged."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    # Sources are read before anything is opened, so a bad source ends the process cleanly.
    routes = endpoints()
    async_producer = AsyncProducer(
        lambda note: kafka_producer(settings, {**_delivery(settings), "error_cb": note}),
        _IN_FLIGHT_LIMIT,
    )
    backlog = Backlog(settings, tuple(dict.fromkeys(endpoint.topic for endpoint in routes)))
    bounds = BacklogBounds(settings.raw_backlog_seconds, settings.raw_backlog_bytes, settings.home)
    watch = BacklogMonitor(
        backlog.measure,
        lambda waiting: bounds.refusal_reason(waiting, async_producer.mean_message_bytes()),
    )
    watch.start()
    client_probes = [async_producer.reaches_brokers, lambda: watch.kafka_state()[0]]
    cut_off = BrokerConnectivity(client_probes, lambda: brokers_answer(settings))
    ended = Event()
    # A daemon thread: it may wait for absent brokers, and the process must not wait for it to end.
    thread = Thread(target=cut_off.run, args=(ended,), name="cut-off", daemon=True)
    thread.start()
    checks = BodyChecker()
    checks.start_watchdog()
    try:
        app = build_app(async_producer, Rules.from_settings(settings), watch, routes, checks)
        serve(
            app,
            ServerOptions(settings.gateway, settings.allowed_hosts),
            lambda: async_producer.fatal is not None or cut_off.is_lost,
        )
    finally:
        ended.set()
        unacknowledged = async_producer.close(_DELIVERY_SECONDS)
        if watch.stop():
            backlog.close()
    lost = "no broker answers this process, though they answer others" if cut_off.is_lost else None
    unsent = f"{unacknowledged} messages without acknowledgement" if unacknowledged else None
    if reason := async_producer.fatal or lost or unsent:
        raise StackError(f"{reason}; start the gateway again")


def _delivery(settings: Settings) -> dict[str, int]:
    return {
        "message.timeout.ms": _DELIVERY_SECONDS * 1000,
        "message.max.bytes": settings.max_message_bytes + 100_000,
        # More than the producer lets in, so that librdkafka's own queue never fills up first.
        "queue.buffering.max.kbytes": 2 * _IN_FLIGHT_LIMIT.bytes // 1024,
    }


if __name__ == "__main__":
    sys.exit(main())
