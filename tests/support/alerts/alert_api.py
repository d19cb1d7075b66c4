"""The API over alerts in memory, on a real socket."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tally.alerts.message import Alert
from tally.config.settings import Settings
from tests.support.alerts.alert_memory import MemoryFeed
from tests.support.serving.served_app import served
from tests.support.serving.serving_example import example
from tests.support.serving.serving_world import MemoryViews
from web.api.app import create_app


@contextmanager
def alert_api(told: Sequence[Alert]) -> Iterator[str]:
    """host:port of an API that knows what was told."""
    views, feed = MemoryViews(example()), MemoryFeed()
    views.alerts.told += told
    with served(create_app(Settings(), views, feed)) as address:
        yield address
        feed.end()
