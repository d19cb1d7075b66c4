"""One running loop of the product's sources and of one that it has never heard of, for several
stories.

They share the first rebuild, which is that of the odd messages: what a story has to say before a
rebuild comes first, what it has to say of the rebuilt views afterwards.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cassandra.cluster import Session

from ops.local.services import catalogue
from runtime.connect import cassandra_session
from tests.e2e.today.test_clocks_and_networks import store_entries as clock_stores
from tests.e2e.today.test_twin_counters import store_entries as counter_stores
from tests.support.clients.gateway_client import GatewayClient
from tests.support.sources import meraki, pos_table, till_cases
from tests.support.stack.loop import Loop, running_loop
from tests.support.twin import night

# Everything but the scheduler: a test says itself when it wants a rebuild.
SERVICES = [name for name in catalogue.SERVICES if name != "airflow"]
ELEVENTH = Path(__file__).parents[1] / "eleventh"
# A test that needs none of these fixtures comes first, one that needs the last of them last: what
# is sent of now makes what others send of days ago late.
TURNS = ("sent_of_now", "odds", "rebuilt", "planted", "doors")
WINDOWS_ASKED = 200


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of this folder by their turns; all others stay where they are."""
    here = Path(__file__).parent
    places = [place for place, item in enumerate(items) if item.path.is_relative_to(here)]
    by_turn = sorted((items[place] for place in places), key=_turn)
    for place, item in zip(places, by_turn, strict=True):
        items[place] = item


def _turn(item: pytest.Item) -> int:
    needed: list[str] = getattr(item, "fixturenames", [])
    return max((turn for turn, name in enumerate(TURNS, 1) if name in needed), default=0)


# Two people counters that are expected to be there at all times.
DOORS = {"doors": {"sensors": {"s1": {"device_id": "door-1"}, "s2": {"device_id": "door-2"}}}}


@pytest.fixture(scope="package")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    home = tmp_path_factory.mktemp("today")
    stores = tmp_path_factory.mktemp("stores") / "stores.yaml"
    stores.write_text(
        yaml.safe_dump(
            pos_table.store_entries()
            | till_cases.store_entries()
            | {night.STORE: night.entry()}
            | clock_stores()
            | counter_stores()
            | DOORS
        )
    )
    overrides = {
        "TALLY_SOURCES": str(ELEVENTH),
        "TALLY_STORES_FILE": str(stores),
        "TALLY_VENDOR_SECRETS": meraki.SECRETS,
        # What comes in many small bodies is read in fewer micro-batches.
        "TALLY_TRIGGER_SECONDS": "2",
    }
    with running_loop(home, *SERVICES, overrides=overrides) as running:
        yield running


@pytest.fixture(scope="package")
def session(loop: Loop) -> Iterator[Session]:
    with cassandra_session(loop.settings) as opened:
        yield opened


@pytest.fixture(scope="package")
def gateway(loop: Loop) -> Iterator[GatewayClient]:
    client = GatewayClient(loop.settings.gateway)
    yield client
    client.close()


@pytest.fixture(scope="package")
def audited(loop: Loop) -> dict[str, Any]:
    """What an audit found once the first rebuild was there."""
    # The default of a thousand would ask each of these few windows several times.
    return loop.json("audit", "--against", "master", "--http", str(WINDOWS_ASKED))
