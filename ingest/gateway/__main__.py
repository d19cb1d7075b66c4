"""`python -m ingest.gateway`: the HTTP entrance on the settings' address."""

import signal
import sys

import uvicorn

from ingest.gateway.app import build_app
from ingest.gateway.outbox import Outbox, is_reachable
from ingest.gateway.submission import ENTRANCES
from ingest.normaliser.arrival import Rules
from tally.connect import kafka_producer
from tally.errors import TallyError
from tally.settings import Settings

_MOST_UNDER_WAY = 50_000
_DELIVERY_SECONDS = 15
_REACH_SECONDS = 3.0


class _Server(uvicorn.Server):
    """Stops by itself when the producer cannot go on, so that the supervisor starts a new one."""

    outbox: Outbox

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop; asked ten times a second."""
        return await super().on_tick(counter) or self.outbox.fatal is not None


def main() -> int:
    """Exit code: 0 when told to stop, 1 on an error that a new start may heal."""
    try:
        return run(Settings.load())
    except TallyError as error:
        print(f"gateway: {error}", file=sys.stderr)
        return 1


def run(settings: Settings) -> int:
    """Serve until stopped."""
    delivery = {"message.timeout.ms": _DELIVERY_SECONDS * 1000, "message.max.bytes": settings.max_message_bytes + 100_000}
    producer = kafka_producer(settings, delivery)
    outbox = Outbox(producer, _MOST_UNDER_WAY)
    host, port = settings.gateway.rsplit(":", 1)
    app = build_app(outbox, Rules.of(settings), lambda: is_reachable(producer, ENTRANCES[0].topic, _REACH_SECONDS))
    server = _Server(uvicorn.Config(app, host, int(port), access_log=False, log_level="warning"))
    server.outbox = outbox
    for wanted in (signal.SIGTERM, signal.SIGINT):
        # Uvicorn raises the signal once more after its shutdown; what is under way is still to be flushed then.
        signal.signal(wanted, lambda _number, _frame: None)
    server.run()
    left = outbox.close(_DELIVERY_SECONDS)
    if outbox.fatal or left:
        raise TallyError(f"{outbox.fatal or f'{left} messages without acknowledgement'}; start the gateway again")
    return 0 if server.started else 1


if __name__ == "__main__":
    sys.exit(main())
