"""What is enough: all sensors together, and each counter alone."""

import pytest

from serving.cells.coverage import CoverageRule, SensorName, SensorSeconds, SlotCoverage

HOUR = 3600


def watch(*observed: int, expected: int = 10 * HOUR, sees_alone: bool = True) -> SlotCoverage:
    """Sensors that were there for so many seconds each."""
    found = SlotCoverage(CoverageRule(0.9))
    for place, seconds in enumerate(observed):
        found.add(
            SensorName("traffic", f"door-{place}", sees_alone), SensorSeconds(expected, seconds)
        )
    return found


@pytest.mark.parametrize(
    ("found", "is_enough"),
    [
        pytest.param(watch(10 * HOUR, 10 * HOUR), True, id="whole"),
        pytest.param(watch(9 * HOUR + 300), True, id="above the threshold"),
        pytest.param(watch(9 * HOUR), False, id="without one hour of ten, maybe the busiest"),
        pytest.param(watch(*[10 * HOUR] * 19, 0), False, id="one of twenty doors is dead"),
        pytest.param(
            watch(*[10 * HOUR] * 19, 0, sees_alone=False), True, id="one of twenty access points"
        ),
        pytest.param(watch(), True, id="nothing is expected"),
    ],
)
def test_number_is_whole_when_every_counter_was_there(found: SlotCoverage, is_enough: bool) -> None:
    assert found.is_enough is is_enough


def test_all_is_enough_for_a_threshold_of_all() -> None:
    found = watch(HOUR, expected=HOUR)
    found.rule = CoverageRule(1.0)

    assert found.is_enough


def test_worst_counter_is_told_beside_the_total() -> None:
    assert watch(10 * HOUR, 5 * HOUR).to_fields() == {
        "coverage": 0.75,
        "worst_coverage": 0.5,
        "worst_sensor": "door-1",
        "estimated": True,
    }
    assert watch(10 * HOUR).to_fields() == {"coverage": 1, "estimated": False}
    assert watch(0, sees_alone=False).to_fields() == {"coverage": 0, "estimated": True}
