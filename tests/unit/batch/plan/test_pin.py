"""What a pinned version of the master may claim to cover."""

from datetime import UTC, date, datetime

from batch_layer.views.compute.pin import Pin
from tally.families.generation import Generation

EARLY, LATE = datetime(2017, 3, 6, 9, 7, tzinfo=UTC), datetime(2017, 3, 6, 11, 59, tzinfo=UTC)


def pointer(pinned: dict[int, int], through: dict[int, datetime]) -> Generation:
    return Generation(date(2017, 3, 6), 1, 1, EARLY, EARLY, 7, LATE, pinned, through)


def test_claim_of_a_generation_with_no_later_offsets_still_holds() -> None:
    pin = Pin(3, {0: 10}, {0: EARLY})

    assert pin.with_earlier([pointer({0: 10}, {0: LATE})]).through == {0: LATE}


def test_claim_of_a_generation_with_later_offsets_is_not_taken_over() -> None:
    pin = Pin(3, {0: 10, 1: 5}, {0: EARLY, 1: EARLY})

    assert pin.with_earlier([pointer({0: 10, 1: 6}, {0: LATE, 1: LATE})]) == pin
