"""Named days of a family read from presences are rebuilt with those of their key periods."""

from datetime import date

import pytest

from batch_layer.views.compute.plan import period_days
from runtime.registry.sources import FAMILIES
from tally.config.settings import Settings

DAYS = [date(2026, 11, number) for number in range(20, 28)]


def around(family: str, days: list[date], key_days: int) -> list[int]:
    """Days of the month, where DAYS are known."""
    found = period_days(Settings(key_days=key_days), FAMILIES[family], DAYS, days)
    return sorted(day.day for day in found)


@pytest.mark.parametrize(
    ("family", "key_days", "found"),
    [
        ("wifi", 1, [22, 23, 24, 25, 26]),
        ("wifi", 2, [21, 22, 23, 24, 25, 26, 27]),
        ("wifi", 7, [20, 21, 22, 23, 24, 25, 26, 27]),
        ("sales", 1, []),
        ("traffic", 7, []),
    ],
)
def test_days_around_a_named_day(family: str, key_days: int, found: list[int]) -> None:
    assert around(family, [date(2026, 11, 24)], key_days) == found


def test_days_of_which_nothing_is_known_are_not_rebuilt() -> None:
    assert around("wifi", [date(2026, 11, 28)], 1) == [26, 27]
    assert around("wifi", [date(2027, 1, 1)], 1) == []
