"""Thousands of connections that nobody means to use, beside fifty honest senders, against a real
gateway and a real broker."""

import asyncio
from collections.abc import Iterator

import pytest

from ops.local.processes.probes import is_healthy
from tally.config.settings import Settings
from tests.integration.ingest.conftest import starter, wait_until
from tests.support.odd import hostile
from tests.support.odd.hostile import Attack, address_of, p99

GONE_SECONDS = 60.0


@pytest.fixture
def addresses(kafka: str, settings: Settings) -> Iterator[list[tuple[str, int]]]:
    """Hosts and ports of two running gateways: no API runs here, so its address is free for the
    second."""
    places = [settings.gateway, settings.api]
    with starter({"TALLY_KAFKA": kafka}) as begin:
        for place in places:
            begin("ingest.gateway", TALLY_GATEWAY=place)
        wait_until(lambda: all(is_healthy(place) for place in places))
        yield [address_of(place) for place in places]


def test_three_thousand_held_connections_are_gone_in_a_minute_and_honest_senders_do_not_feel_them(
    addresses: list[tuple[str, int]],
) -> None:
    found = asyncio.run(
        hostile.measured(addresses, Attack(half_open=2000, trickled=500, idle=500), GONE_SECONDS)
    )

    print(found)
    assert found.failed == []
    assert max(found.lived) < GONE_SECONDS
    assert p99(found.attacked) < 3 * p99(found.beside)
