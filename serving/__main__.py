"""`python -m serving`: the API and the dashboard on one address, one process."""

import sys

from runtime.job import run_job
from runtime.protocol import ConnectionLimits
from runtime.web import Place, serve
from serving.alerts.simulation.desk import SimulationDesk
from serving.alerts.stream.feed import TopicFeed
from serving.alerts.watch import AlertWatch
from serving.api.app import AlertBrokers, create_app
from serving.dashboard import page
from serving.merge.cassandra_views import CassandraViews
from serving.query import catalogue
from tally.settings import Settings

# A long question of many stores is still being answered when a message would have been taken or
# refused long ago.
_REQUEST_SECONDS = 120.0


def main() -> int:
    """Exit code: 0 after SIGTERM or SIGINT, 1 for a taken address, 78 for wrong settings."""
    return run_job("api", run)


def run() -> None:
    """Serve until stopped. Raises BadSettings, StackError, BadSource."""
    settings = Settings.load()
    # Read here, once: a descriptor that is wrong ends the process, and not each answer.
    catalogue.entries()
    views, feed, watch = CassandraViews(settings), TopicFeed(settings), AlertWatch(settings)
    try:
        # One for both: what it has read of the topics is kept once.
        desk = SimulationDesk.of(settings, views)
        app = create_app(settings, views, feed, desk, AlertBrokers(watch))
        # After the routes of the API: the page takes every path that is left.
        page.mount(app, settings, views, page.LiveSources(feed, desk, watch=watch))
        serve(
            app,
            Place(
                settings.api,
                settings.allowed_hosts,
                page.POLICY,
                ConnectionLimits(request_seconds=_REQUEST_SECONDS),
            ),
        )
    finally:
        watch.close()
        feed.close()
        views.close()


if __name__ == "__main__":
    sys.exit(main())
