"""What people settle about deliveries, and where it lies."""

import json
import re
from typing import Any

import msgspec
import pytest

from alerting.deliver.state.controls import (
    Acknowledgement,
    AlertChannel,
    AlertControl,
    Redelivery,
    Silence,
    Snooze,
    control_partitions,
    decode_control,
)
from tally.events.identity import partition_number
from tests.unit.alerting.deliver.deliveries import channel
from tests.unit.architecture.counts.sources import ROOT

CHANNEL: dict[str, Any] = json.loads(msgspec.json.encode(channel()))


@pytest.mark.parametrize(
    "changed",
    [
        {"channel_id": "a|b"},
        {"channel_id": ""},
        {"channel_id": "x" * 65},
        {"channel_id": "floor\n"},
        {"secrets": []},
        {"secrets": ["a", "b", "c"]},
        {"url": "https://x.example/" + "p" * 2_000},
        {"max_age": -1},
        {"max_age": 0.5},
        {"most_a_minute": 0},
        {"least_severity": "fatal"},
        {"leaves_out": ["retracted"]},
        {"leaves_out": ["provisional"]},
        {"promise": "exactly_once"},
        {"quiet": [{"days": "mon", "from": "25:00", "to": "06:00"}]},
        {"quiet": [{"days": "monday", "from": "22:00", "to": "06:00"}]},
        {"digest": "7"},
        {"rules": "everything"},
        {"stores": ["a|b"]},
        {"more": 1},
        {"is": "something"},
        {"url": None},
        {"url": "ftp://tablet.example/"},
        {"url": "https://tablet.example/ "},
    ],
)
def test_a_channel_that_does_not_fit_is_refused_when_it_is_read(changed: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_control(json.dumps({**CHANNEL, **changed}).encode())


def test_what_is_of_one_alert_lies_in_its_stores_partition_and_all_else_in_every_one() -> None:
    of_a_store: list[AlertControl] = [
        Snooze(alert_id="0" * 64, store_id="367", until=1),
        Acknowledgement(alert_id="0" * 64, store_id="367", at=1, by="anna"),
    ]
    of_all: list[AlertControl] = [
        channel(),
        Silence(silence_id="s", starts=0, ends=1),
        Redelivery(channel_id="floor", message_id="m_1", asked_at=1),
    ]

    assert [control_partitions(one, 4) for one in of_a_store] == [[partition_number("367", 4)]] * 2
    assert [control_partitions(one, 4) for one in of_all] == [[0, 1, 2, 3]] * 3


def test_the_channel_of_the_page_is_one() -> None:
    page = (ROOT / "docs" / "alerts-webhooks.md").read_text("utf-8")
    found = re.search(r"```json channel\n(.*?)```", page, re.DOTALL)
    assert found is not None
    told = json.loads(found[1])

    channel_told = decode_control(json.dumps({**told, "is": "channel"}).encode())

    assert (type(channel_told), {*told}) == (AlertChannel, {*AlertChannel.__struct_fields__})
