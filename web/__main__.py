"""`python -m web`: the API and the dashboard on one address, one process."""

import sys

from alerting.health.watch import AlertWatch
from alerting.simulate.service import SimulationService
from alerting.stream.feed import TopicFeed
from runtime.http.server import ConnectionLimits, ServerOptions, serve
from runtime.process.job import run_job
from serving.questions import catalogue
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from web.api.app import AlertBrokers, create_app
from web.dashboard import page

# A long query over many stores takes far longer to answer than an ingest request takes to be
# accepted or refused, so this limit is higher.
_REQUEST_SECONDS = 120.0


def main() -> int:
    """Exit code: 0 after SIGTERM or SIGINT, 1 if the address is in use, 78 for wrong settings."""
    return run_job("api", run)


def run() -> None:
    """Serve until stopped. Raises BadSettings, StackError, BadSource."""
    settings = Settings.load()
    # The catalogue is read once, here: a wrong descriptor stops the process at startup instead of
    # failing every answer.
    catalogue.entries()
    views, feed, watch = ViewReader(settings), TopicFeed(settings), AlertWatch(settings)
    try:
        # Shared by the API and the pages, so the topics that it has read are in memory once.
        simulations = SimulationService.from_settings(settings, views)
        app = create_app(settings, views, feed, simulations, AlertBrokers(watch))
        # The pages are mounted after the API routes because they take every remaining path.
        page.mount(app, settings, views, page.LiveSources(feed, simulations, fact_source=watch))
        serve(
            app,
            ServerOptions(
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
