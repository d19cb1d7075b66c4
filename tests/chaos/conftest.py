"""A broker of a test's own with evaluators on it, and shops whose receipts they evaluate."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from alerting.rules.topic import write_rules
from alerting.rules.versions import StoredRule
from ops.local.processes.service import Site
from ops.local.services import catalogue
from ops.local.stack import control
from runtime.connect import cassandra_session
from runtime.registry.sources import SALES
from tests.conftest import make_site, node_of
from tests.integration.alerting.evaluate.quarters import Quarters
from tests.integration.ingest.conftest import Start, starter
from tests.support.alerts.alert_receipts import RULES, STORES
from tests.support.alerts.alert_shop import AlertShop
from tests.support.clients.console_consumer import AlertConsole, subscribed

SEED = 2026
# What a shop writes; another test's rows would be its receipts.
TABLES = (
    *(SALES.speed_table, SALES.batch_table, "batch_pointer", "batch_pointer_history"),
    *("store_activity", "store_axis"),
)


@pytest.fixture
def alert_site(node_site: Site, keyspace: str, tmp_path: Path) -> Iterator[Site]:
    """A broker of the test's own, and empty tables: state and ticks of another would go on here."""
    site = make_site(tmp_path / "own", **node_of(node_site), TALLY_KEYSPACE=keyspace)
    control.up(site, catalogue.select_services(["kafka"]), print)
    with cassandra_session(site.settings) as session:
        for table in TABLES:
            session.execute(f"TRUNCATE {table}", timeout=60)
    yield site
    control.down(site, catalogue.select_services(()), print)


@pytest.fixture
def begin(alert_site: Site) -> Iterator[Start]:
    """Starts processes on it; their own ticks are few, so that those of the shop make the time."""
    settings = alert_site.settings
    own = {"TALLY_KAFKA": settings.kafka, "TALLY_TICK_SECONDS": "60"}
    with starter({**alert_site.environment, **own}) as begin:
        yield begin


@pytest.fixture
def shop(alert_site: Site) -> Iterator[AlertShop]:
    """A shop from the first quarter hour on that the rules evaluate."""
    settings = alert_site.settings
    versions = write_rules(settings, [StoredRule(rule=one, version=1) for one in RULES])
    first = max(one.effective_from for one in versions)
    nothing = dict.fromkeys(STORES, ())
    with cassandra_session(settings) as session:
        quarters = Quarters(settings, session, first, {**nothing}, {**nothing}, rules=len(RULES))
        yield AlertShop(quarters, Random(SEED))


@pytest.fixture
def console(alert_site: Site, tmp_path: Path) -> Iterator[AlertConsole]:
    """Kafka's own consumer of committed records, from before the first alert on."""
    printed = tmp_path / "committed.jsonl"
    with subscribed(alert_site.settings, printed, "read_committed") as console:
        yield console
