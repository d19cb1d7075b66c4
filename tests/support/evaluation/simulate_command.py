"""`tally alerts simulate` over the API of this process's memory, on a real socket."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ops.cli.app import build_app
from tests.support.alerts.alert_memory import MemoryFeed
from tests.support.evaluation.evaluating import Watched
from tests.support.evaluation.simulating import simulations_over
from tests.support.serving.served_app import served
from web.api.app import create_app

SimulateCommand = Callable[..., Result]


@contextmanager
def simulate_command(
    store: Watched, patch: pytest.MonkeyPatch, home: Path
) -> Iterator[SimulateCommand]:
    """Runs the verb over what the store has told by then."""
    simulations = simulations_over(store.views, store.rules, store.settings)
    with served(create_app(store.settings, store.views, MemoryFeed(), simulations)) as address:
        patch.setenv("TALLY_API", address)
        patch.setenv("TALLY_HOME", str(home))

        def run(*arguments: str) -> Result:
            store.views.alerts.told = [*store.alerts]
            return CliRunner().invoke(build_app(), ["alerts", "simulate", *arguments])

        yield run
