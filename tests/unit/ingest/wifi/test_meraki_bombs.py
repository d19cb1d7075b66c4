"""Bodies of people who do not know the secret, made to keep the gateway busy."""

import time
from datetime import UTC, datetime

import pytest

from ingest.contract.vendor import VendorBody
from ingest.installation.arrival import Rules
from ingest.sources.wifi.vendors import meraki
from tally.config.settings import Settings
from tally.errors import Forbidden, RejectedEvent
from tests.support.stack.nominal_processor import slowness

NOW = datetime(2026, 3, 2, 10, 1, tzinfo=UTC)
SIZE = 2**18
BOMBS = {
    "quotes that never end": b'NaN"' + b'\\"' * SIZE,
    "quotes alone": b'NaN"' + b'"' * SIZE,
    "a string that never ends": b'NaN"' + b"x" * SIZE,
    "backslashes": b'NaN"' + b"\\" * SIZE,
    "words": b"NaN " * (SIZE // 4),
}


@pytest.mark.parametrize("body", BOMBS.values(), ids=BOMBS)
def test_who_does_not_know_the_secret_costs_little(body: bytes) -> None:
    begun = time.process_time()

    with pytest.raises((RejectedEvent, Forbidden)):
        list(meraki.messages(VendorBody(body, NOW, Rules.from_settings(Settings()))))

    # It takes some milliseconds; what grows with the square took minutes.
    assert time.process_time() - begun < slowness()


def test_the_word_in_a_string_stays() -> None:
    body = b'{"secret":"NaN \\" NaN","version":NaN}'

    with pytest.raises(Forbidden):
        list(meraki.messages(VendorBody(body, NOW, Rules.from_settings(Settings()))))
    readable = meraki._repair_json(VendorBody(body, NOW, Rules.from_settings(Settings())))
    assert readable == b'{"secret":"NaN \\" NaN","version":null}'
