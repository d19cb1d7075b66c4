"""What an audit says of itself: whether it holds, and what it shows of a difference."""

from dataclasses import replace

import pytest
from rich.console import Console

from ops.audit.against_master import FamilyComparison
from ops.audit.oracle import Difference
from ops.audit.report import Audit, show

EQUAL = FamilyComparison(windows=2, equal=2, totals={}, differences=[])
NONE = FamilyComparison(windows=0, equal=0, totals={}, differences=[])
WRONG = replace(EQUAL, equal=1)


@pytest.mark.parametrize(
    ("families", "holds"),
    [
        ({"sales": EQUAL, "traffic": EQUAL}, True),
        # Of traffic nothing was ever sent, which is no failure of it.
        ({"sales": EQUAL, "traffic": NONE}, True),
        ({"sales": EQUAL, "traffic": WRONG}, False),
        ({"sales": NONE, "traffic": NONE}, False),
    ],
)
def test_audit_against_the_master_holds_once_something_was_compared_and_all_of_it_is_equal(
    families: dict[str, FamilyComparison], holds: bool
) -> None:
    assert Audit(None, None, None, 1.0, families).ok is holds


def test_audit_that_compared_nothing_says_so() -> None:
    console = Console(record=True, width=200)

    show(Audit(None, None, None, 1.0, {"sales": NONE}), console)

    told = console.export_text()
    assert "no window of any family in this scope; widen --days or --store" in told
    assert "audit FAILED" in told


def test_differences_of_long_lists_are_shown_from_where_they_differ() -> None:
    expected = [[number, 1] for number in range(1_000)]
    wrong = [
        Difference("1", "2026-03-02T10:00:00.000Z", "lengths", expected, [*expected[:990], [7, 7]]),
        Difference("1", "2026-03-02T10:00:00.000Z", "persons", [1, 2], []),
        Difference("1", "2026-03-02T10:00:00.000Z", "shortest", 4, None),
    ]
    console = Console(record=True, width=300)

    show(Audit(None, None, None, 1.0, {"queues": replace(WRONG, differences=wrong)}), console)

    told = console.export_text()
    assert (
        "lengths: expected 1,000 values, from number 990 [[990, 1], [991, 1], [992, 1], …],"
        " got 991 values, from number 990 [[7, 7]]"
    ) in told
    assert "persons: expected 2 values, from number 0 [1, 2], got 0 values" in told
    assert "shortest: expected 4, got None" in told
