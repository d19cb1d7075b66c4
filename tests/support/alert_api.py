"""The API over alerts in memory, on a real socket."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

import uvicorn

from serving.api.app import create_app
from tally.alerts.message import Alert
from tally.settings import Settings
from tests.support.alert_memory import MemoryFeed
from tests.support.serving_example import example
from tests.support.serving_world import MemoryViews


@contextmanager
def alert_api(told: Sequence[Alert]) -> Iterator[str]:
    """host:port of an API that knows what was told."""
    views, feed = MemoryViews(example()), MemoryFeed()
    views.alerts.told += told
    app = create_app(Settings(), views, feed)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        host, port = listener.getsockname()
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = Thread(target=server.run, args=([listener],))
        thread.start()
        yield f"{host}:{port}"
        feed.end()
        server.should_exit = True
        thread.join(20)
