"""What may be told early, what may end it, and what nobody evaluates yet."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from alerting.rules.checks import find_unsupported_field, rule_catalogue
from alerting.rules.rule import Threshold
from alerting.rules.rule_file import validate_rule
from tally.errors import BadRule
from tests.unit.alerting.rules.rules import CATALOGUE, rule, told


def problems(content: Any) -> list[str]:
    with pytest.raises(BadRule) as refused:
        validate_rule(content, CATALOGUE)
    return [*refused.value.problems]


@pytest.mark.parametrize(
    ("metric", "op", "taken"),
    [
        ("visitors", ">=", True),
        ("visitors", ">", True),
        ("visitors", "<=", False),
        ("visitors", "<", False),
        ("revenue", ">=", False),
        ("longest_wait", ">", True),
        ("longest_wait", "<", False),
        ("shortest_wait", "<=", True),
        ("shortest_wait", ">=", False),
        ("inside", ">=", True),
        ("inside", "<", True),
    ],
)
def test_eager_is_taken_only_where_more_records_undo_nothing(
    metric: str, op: str, taken: bool
) -> None:
    eager = {"metric": metric, "condition": {"op": op, "value": "6"}, "clear": None}

    if taken:
        assert rule(**eager, evaluate="eager").evaluate == "eager"
    else:
        [problem] = problems(told(**eager, evaluate="eager"))
        assert problem.startswith(
            f"evaluate: more records of a window could undo this condition on {metric}"
        )


def test_of_the_product_s_own_sums_only_those_that_no_record_lowers_are_eager() -> None:
    metrics = rule_catalogue().metrics

    # What a till sells can be voided; visits of devices may be joined to one by a later sighting.
    assert {one for one, facts in metrics.items() if facts.only_rises} == {
        "groups_in",
        "passers_by",
        "visitors_in",
        "visitors_in_with_passers",
        "at_the_door",
        *("closed_footfall", "inner_footfall", "shared_footfall", "staff_footfall"),
    }
    assert metrics["conversion"].denominator == "visitors_in"
    assert (metrics["occupancy"].kind, metrics["occupancy"].only_rises) == ("level", False)


CONDITIONS = [(op, value) for op in (">=", ">", "<=", "<") for value in (1, 2, 3)]


def holds(op: str, value: float, number: float) -> bool:
    compared = {">=": number >= value, ">": number > value, "<=": number <= value}
    return compared.get(op, number < value)


@pytest.mark.parametrize(("op", "value"), CONDITIONS)
@pytest.mark.parametrize(("clear_op", "clear_value"), CONDITIONS)
def test_clear_is_refused_exactly_where_some_number_fulfils_both(
    op: str, value: int, clear_op: str, clear_value: int
) -> None:
    numbers = [one / 2 for one in range(10)]
    both = any(holds(op, value, n) and holds(clear_op, clear_value, n) for n in numbers)
    asked = told(condition={"op": op, "value": value}, clear={"op": clear_op, "value": clear_value})

    if both:
        assert problems(asked) == [
            "clear: some values fulfil it and condition too; move one of them away"
        ]
    else:
        assert validate_rule(asked, CATALOGUE).clear == Threshold(clear_op, Decimal(clear_value))  # type: ignore[arg-type]


def test_sigmas_clear_nearer_than_they_raise() -> None:
    def of(sigmas: str) -> dict[str, str]:
        return {"baseline": "hour_of_week", "sigmas": sigmas}

    assert rule("baseline", condition=of("3"), clear=of("2.5")).clear is not None
    [problem] = problems(told("baseline", condition=of("3"), clear=of("3")))
    assert problem.startswith("clear: some values fulfil it")


def test_of_four_values_nobody_asks_deviations() -> None:
    [problem] = problems(
        told("baseline", condition={"baseline": "same_weekday_4w", "sigmas": "3"}, clear=None)
    )
    assert problem.startswith("condition: four values say nothing of deviations; write `change`")


@pytest.mark.parametrize("subject", ["device", "till", "zone", "category"])
def test_a_rule_of_single_things_is_not_evaluated_yet_and_says_so(subject: Any) -> None:
    of = replace(rule(), subject=subject)

    assert find_unsupported_field(of) == (
        f"subject: a store is judged as a whole, and not yet by {subject}; leave it out"
    )
