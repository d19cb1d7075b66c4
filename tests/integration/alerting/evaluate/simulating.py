"""`tally alerts simulate` over the real topics and tables of a test."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from alerting.alert.ids import window_text
from alerting.publish.tables import AlertTables, FiledAlert
from ops.cli.app import build_app
from runtime.connect import cassandra_session
from serving.storage.views import ViewReader
from tally.alerts.message import Alert, encode_alert
from tally.config.settings import Settings
from tests.support.serving.served_app import served
from web.api.app import create_app

PROJECTOR = "alerting.publish"
Simulate = Callable[..., Result]


@contextmanager
def simulating(
    settings: Settings, span: tuple[int, int], patch: pytest.MonkeyPatch
) -> Iterator[Simulate]:
    """Runs the verb, of all windows of the span (milliseconds since 1970, UTC)."""
    views = ViewReader(settings)
    with served(create_app(settings, views)) as address:
        patch.setenv("TALLY_API", address)
        start, end = map(window_text, span)
        asked = ("--from", start, "--to", end, "--json")

        def run(*arguments: str) -> Result:
            return CliRunner().invoke(build_app(), ["alerts", "simulate", *arguments, *asked])

        yield run
    views.close()


def against(done: Result) -> dict[str, Any]:
    """What of an answer is about what was told."""
    found: dict[str, Any] = json.loads(done.stdout)["against"]
    return found


def filed(settings: Settings) -> Counter[str]:
    """How many alerts stand in which state by now, as the projector has filed them."""
    with cassandra_session(settings) as session:
        return Counter(row.state for row in session.execute("SELECT state FROM alerts_byday"))


def plant(settings: Settings, planted: Alert) -> None:
    """The tables have an alert that nobody told."""
    with cassandra_session(settings) as session:
        AlertTables(session).write_alerts([FiledAlert(planted, encode_alert(planted).decode())])
