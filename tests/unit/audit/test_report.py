"""What an audit says of itself: whether it holds, and what it shows of a difference."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ops.audit import report
from ops.audit.against_master import FamilyComparison
from ops.audit.by_catalogue import ApiComparison
from ops.audit.oracle import Difference
from ops.audit.report import Audit, AuditRequest, as_json, run_audit, show
from ops.oracle import WHOLE
from tally.config.settings import Settings
from tests.support.serving.stored_rows import StoredSession
from tests.unit.audit.test_master import ROWS, opened

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


class Api:
    """In the place of the API: notes what it is asked, and knows of no window."""

    def __init__(self) -> None:
        self.asked: set[tuple[str, tuple[str, ...]]] = set()

    @contextmanager
    def asking(self, _api: str) -> Iterator[Any]:
        yield self._rows

    def _rows(self, metric: str, _window: Mapping[str, str], by: Sequence[str]) -> Any:
        self.asked.add((metric, tuple(by)))
        row = {"value": None, "source": "missing", "status": "provisional", "complete": False}
        return [{**row, "by": dict.fromkeys(by)}]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    """Beside it a Cassandra without rows."""
    made, session = Api(), StoredSession({})
    monkeypatch.setattr(report, "open_client", made.asking)
    monkeypatch.setattr(report, "cassandra_session", lambda _settings: nullcontext(session))
    return made


def audited(home: Path, http: int) -> Audit:
    """An audit of what is served against a small master, with so many windows by HTTP."""
    opened(home, ROWS)
    wanted = AuditRequest(WHOLE, http, seed=1, ledger=False, oracle=True, against_master=True)
    return run_audit(Settings(home=home), wanted, lambda _: None)


def test_audit_against_the_master_asks_the_api_for_each_sum_of_every_family(
    tmp_path: Path, api: Api
) -> None:
    found = audited(tmp_path, http=20)

    sums = ("transactions", "revenue", "gross_revenue", "discounts", "rounding", "units")
    counted = ("visitors_in", "groups_in", "visitors_in_with_passers", "passers_by", "at_the_door")
    levels = ("occupancy", "occupancy_residue")
    doors = ("closed_footfall", "inner_footfall", "shared_footfall", "staff_footfall")
    people = {(name, ()) for name in (*counted, *levels, *doors)}
    assert api.asked == {(name, by) for name in sums for by in ((), ("currency",))} | people
    assert isinstance(found.http, ApiComparison) and found.http.windows == 20
    assert not found.http.ok and not found.ok
    told = as_json(found)
    assert told["http"]["windows"] == 20 and told["oracle"] is None
    assert told["master"]["traffic"]["windows"] == 1


def test_levels_that_were_left_out_are_told_with_the_reason() -> None:
    console = Console(record=True, width=300)
    http = ApiComparison(windows=2, equal=2, rows=12, differences=[], left_out=3)

    show(Audit(None, None, http, 1.0), console)

    told = console.export_text()
    assert "12 rows of the catalogue's sums and levels; 3 levels left out: their day is not" in told


def test_no_window_by_http_is_none(tmp_path: Path, api: Api) -> None:
    found = audited(tmp_path, http=0)

    assert (found.http, as_json(found)["http"], api.asked) == (None, None, set())


def test_what_the_api_answered_is_shown_beside_the_rows() -> None:
    http = ApiComparison(2, 1, 9, [Difference("1", "2026-03-02T10:00", "units", 2.5, 2)])
    console = Console(record=True, width=200)

    show(Audit(None, None, http, 1.0, {"sales": EQUAL}), console)

    told = console.export_text()
    assert "master, random windows by HTTP: 1 of 2 windows equal; 9 rows of the catalogue" in told
    assert "store 1 2026-03-02T10:00 units: expected 2.5, got 2" in told
    assert "audit FAILED" in told
