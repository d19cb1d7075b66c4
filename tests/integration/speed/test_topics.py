"""A family more: its topic joins the query of the views, which has begun long before."""

from dataclasses import replace

import pytest

from runtime.registry.sources import TRAFFIC
from tests.integration.speed.query import NOON, OnTopic, SpeedQuery
from tests.support.sources.canonical import interval, send


@pytest.fixture
def doors(query: SpeedQuery, second_topic: str) -> str:
    """A topic of the people counters that no query has read, with three intervals."""
    send(
        query.settings,
        second_topic,
        [interval(query.store, f"door-{number}", NOON, entries=5) for number in range(3)],
    )
    return second_topic


def test_topic_added_to_a_begun_query_is_read_from_its_first_record(
    query: SpeedQuery, doors: str
) -> None:
    query.batches([query.sale(1)], [query.sale(2)])
    both = replace(query, beside=(OnTopic.of(TRAFFIC, doors),))

    both.batches([query.sale(3)], [query.sale(4)])

    assert (query.totals(), replace(query, family=TRAFFIC).rows('events, "entries"')) == (
        [(4, 400)],
        [(3, 15)],
    )
