"""`tally alerts simulate` over the real topics and tables of a test."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from typer.testing import CliRunner, Result

from alerting.alert.ids import window_text
from alerting.simulate.service import SimulationService
from ops.cli.app import build_app
from runtime.connect import cassandra_session
from serving.storage.views import ViewReader
from tally.alerts.message import Alert
from tally.config.settings import Settings
from tests.support.evaluation.compared import Compared, compare, of_answer
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
    # By the end of the span, which the clock may not have reached.
    simulations = replace(SimulationService.from_settings(settings, views), now=lambda: span[1])
    with served(create_app(settings, views, simulations=simulations)) as address:
        patch.setenv("TALLY_API", address)
        start, end = map(window_text, span)
        asked = ("--from", start, "--to", end, "--json")

        def run(*arguments: str) -> Result:
            return CliRunner().invoke(build_app(), ["alerts", "simulate", *arguments, *asked])

        yield run
    views.close()


def compared(done: Result, told: Iterable[Alert], rule_id: str, span: tuple[int, int]) -> Compared:
    """What the evaluator told against what an answer calls for, once generations serve all of the
    span."""
    called = of_answer(json.loads(done.stdout))
    return compare([one._replace(is_settled=True) for one in called], told, rule_id, span)


def filed(settings: Settings) -> Counter[str]:
    """How many alerts stand in which state by now, as the projector has filed them."""
    with cassandra_session(settings) as session:
        return Counter(row.state for row in session.execute("SELECT state FROM alerts_byday"))
