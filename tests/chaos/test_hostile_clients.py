"""Thousands of connections that nobody means to use, beside fifty honest senders, against a real gateway and a real broker."""

import asyncio
from collections.abc import Iterator

import pytest

from ops.stack.probes import is_healthy
from tally.settings import Settings
from tests import hostile
from tests.hostile import Attack, p99
from tests.integration.ingest.conftest import starter, wait_until

GONE_SECONDS = 60.0


@pytest.fixture
def address(kafka: str, settings: Settings) -> Iterator[tuple[str, int]]:
    """Host and port of a running gateway."""
    with starter({"TALLY_KAFKA": kafka, "TALLY_GATEWAY": settings.gateway}) as begin:
        begin("ingest.gateway")
        wait_until(lambda: is_healthy(settings.gateway))
        host, port = settings.gateway.rsplit(":", 1)
        yield host, int(port)


def test_three_thousand_held_connections_are_gone_in_a_minute_and_honest_senders_do_not_feel_them(address: tuple[str, int]) -> None:
    found = asyncio.run(hostile.measured(address, Attack(half_open=2000, trickled=500, idle=500), GONE_SECONDS))

    print(
        f"gone within {max(found.lived):.1f} s; p99 of {len(found.alone)} requests alone {p99(found.alone) * 1000:.0f} ms,"
        f" of {len(found.attacked)} beside 3,000 hostile connections {p99(found.attacked) * 1000:.0f} ms"
    )
    assert found.failed == []
    assert max(found.lived) < GONE_SECONDS
    assert p99(found.attacked) < 3 * p99(found.alone)
