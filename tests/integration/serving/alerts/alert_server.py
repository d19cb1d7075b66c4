"""`python -m tests.integration.serving.alerts.alert_server TOPIC`: the product's server, with a
topic of a test's own and less patience; it prints its address."""

import sys
from unittest.mock import patch

from alerting.stream.feed import TopicFeed
from runtime.http.server import ConnectionLimits, ServerOptions, serve
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tests.integration.serving.test_process import free_port
from web.api.alerts import stream
from web.api.app import create_app

POSITION_SECONDS = 1.0
# Longer than a test waits for its end: a server that waits for its streams is found.
SHUTDOWN_SECONDS = 120
# So long a client may take nothing.
REQUEST_SECONDS = 4.0


def main(topic: str) -> int:
    """Exit code 0 once it was told to stop."""
    settings = Settings.load()
    views, feed = ViewReader(settings), TopicFeed(settings, topic)
    app = create_app(settings, views, feed)
    address = f"127.0.0.1:{free_port()}"
    print(address, flush=True)
    limits = ConnectionLimits(request_seconds=REQUEST_SECONDS, shutdown_seconds=SHUTDOWN_SECONDS)
    with patch.object(stream, "POSITION_SECONDS", POSITION_SECONDS):
        serve(app, ServerOptions(address, limits=limits))
    feed.close()
    views.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
