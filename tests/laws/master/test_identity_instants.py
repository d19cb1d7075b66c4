"""Where a descriptor says that an identity contains the instant, copies never lie on another day.

Traffic: of all versions, lengths and counts that a counter sends of one instant, the shares of one
identity begin at one instant. WiFi: the identity of a sighting ends with its instant.
"""

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ingest.installation.arrival import Arrival, Rules
from ingest.sources.traffic.contract import MAX_SECONDS, normalise, shares
from runtime.registry.sources import FAMILIES
from tally.config.settings import Settings
from tally.time.instants import format_utc
from tests.support.sources.canonical import sighting

ARRIVAL = Arrival(datetime(2026, 3, 3, 12, tzinfo=UTC), 0, 0)
RULES = Rules.from_settings(Settings.load({}))
MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
instants = st.integers(-7_200_000, 7_200_000).map(
    lambda millis: MIDNIGHT + timedelta(milliseconds=millis)
)
variants = st.fixed_dictionaries(
    {
        "interval_seconds": st.integers(1, MAX_SECONDS),
        "in": st.integers(0, 50),
        "out": st.integers(0, 50),
        "revision": st.integers(0, 2),
    }
)
ACROSS = {"in": 5, "out": 0, "revision": 0}


@given(st.lists(instants, min_size=1, max_size=2), st.lists(variants, min_size=1, max_size=4))
@example(
    [MIDNIGHT - timedelta(minutes=5)],
    [{**ACROSS, "interval_seconds": 3_600}, {**ACROSS, "interval_seconds": 60}],
)
def test_shares_of_one_identity_begin_at_one_instant(
    begins: list[datetime], sent: list[dict[str, Any]]
) -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for begin in begins:
        for variant in sent:
            told = {"store_id": "1", "device_id": "door", "happened_at": format_utc(begin)}
            message = json.dumps(told | variant).encode()
            for share in shares(normalise(message, ARRIVAL, RULES)):
                found[share.event_id].add(share.happened_at)

    assert {identity: at for identity, at in found.items() if len(at) > 1} == {}


@given(instants)
def test_sighting_ends_with_its_instant(happened_at: datetime) -> None:
    made = sighting("1", "till", happened_at)

    assert made.event_id.endswith(f":{made.happened_at}")


def test_these_are_the_sources_that_say_so() -> None:
    # Whoever adds one adds its law here.
    assert {name for name, family in FAMILIES.items() if not family.copies_move} == {
        "traffic",
        "wifi",
    }
