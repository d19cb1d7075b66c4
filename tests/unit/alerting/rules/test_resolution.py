"""A resolution of an alert as it is written, and as it is read back."""

import json

import msgspec
import pytest
from msgspec import structs

from alerting.alert.resolution import AlertResolution
from schemas.loader import topics
from tally.events.identity import partition_number

RESOLUTION = AlertResolution(
    alert_id="0" * 64,
    rule_id="few-customers-buy",
    store_id="367",
    subject="item:A%7C1",
    at=1_772_445_600_000,
    by="anna",
    because="the till was being repaired",
)


def test_a_resolution_is_read_back_as_it_was_written() -> None:
    assert AlertResolution.decode(RESOLUTION.value) == RESOLUTION
    assert RESOLUTION.key == "0" * 64


def test_a_field_of_a_later_version_is_passed_over() -> None:
    later = json.dumps({**json.loads(RESOLUTION.value), "more": 1}).encode()

    assert AlertResolution.decode(later) == RESOLUTION


def test_it_lies_in_the_partition_of_its_store() -> None:
    assert topics()["alert-resolutions"]["kind"] == "compacted"
    assert RESOLUTION.partition(4) == partition_number("367", 4) == 1


@pytest.mark.parametrize(
    ("field", "text"),
    [("because", ""), ("because", "  \n"), ("because", "x" * 501), ("by", "x" * 201)],
)
def test_a_text_that_says_nothing_or_too_much_is_refused(field: str, text: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=field):
        AlertResolution.decode(structs.replace(RESOLUTION, **{field: text}).value)


def test_who_resolved_it_may_be_left_empty() -> None:
    unnamed = structs.replace(RESOLUTION, by="")

    assert AlertResolution.decode(unnamed.value) == unnamed
