"""Visit rules of the stores file: from which period on they hold, and what their revisions do."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from runtime.registry.stores import load_families
from tally.config.settings import Settings
from tally.errors import BadSettings
from tally.families.epochs import EVER, DatedVisitRules, Epochs, StoreVisitRules
from tally.people.visits import VisitRules
from tests.unit.ingest.sources.test_stores_file import rules


@pytest.mark.parametrize(
    ("visits", "said"),
    [
        ("7", "visits: '7' does not fit; wanted: rules, e.g. `{enter_dbm: -75, gap_minutes: 30}`"),
        ("{enter: -75}", "visits.enter: unknown field"),
        ("{enter_dbm: 75}", "visits.enter_dbm: Input should be less than or equal to 0"),
        ("{gap_minutes: 0}", "visits.gap_minutes: Input should be greater than or equal to 1"),
        ("{stay_dbm: -70}", "stay_dbm -70 is stronger than enter_dbm -80"),
    ],
)
def test_wrong_visit_rules_are_named_with_the_fix(tmp_path: Path, visits: str, said: str) -> None:
    changed = f"{{changes: {{2026-05-01: {{visits: {visits}}}}}}}"
    for fields in (f"{{visits: {visits}}}", changed):
        with pytest.raises(BadSettings) as refused:
            rules(tmp_path, f"367: {fields}")
        assert said in str(refused.value) and "store 367" in str(refused.value)


def test_visit_rules_hold_from_the_begin_of_the_store_s_day_on(tmp_path: Path) -> None:
    text = """
367:
  tz: America/New_York
  day_starts: "04:00"
  visits: {enter_dbm: -70, static_minutes: 600}
  changes: {2026-03-08: {visits: {gap_minutes: 30, revision: 2}}}
406: {}
"""
    file = tmp_path / "stores.yaml"
    file.write_text(text, "utf-8")

    found = load_families(Settings(stores_file=file))["wifi"]

    # On 8 March clocks are set forward: 04:00 is 08:00 UTC.
    begins = int(datetime(2026, 3, 8, 8, tzinfo=UTC).timestamp()) // 60
    strict, patient = VisitRules(enter_dbm=-70, static_minutes=600), VisitRules(gap_minutes=30)
    of = found.visit_rules.rules_for
    assert [of("367", begins - 1), of("367", begins)] == [strict, patient]
    assert of("406", begins) == of("500", begins) == VisitRules()
    epochs = [found.epochs.for_day(date(2026, 3, day)) - found.epoch for day in (1, 7, 8, 9, 31)]
    assert epochs == [0, 0, 2, 2, 2]
    assert found.epochs.highest == found.epoch + 2


def test_revisions_of_several_stores_add_up_and_a_day_of_two_rules_has_the_higher() -> None:
    day = 1440
    rules = VisitRules()
    of_stores = StoreVisitRules(
        {
            "1": (DatedVisitRules(EVER, rules, 4), DatedVisitRules(2 * day, rules, 1)),
            "2": (DatedVisitRules(EVER, rules), DatedVisitRules(4 * day + 60, rules, 2)),
        }
    )

    epochs = Epochs(3, increases=of_stores.epoch_increases)

    days = [date(1970, 1, 1) + timedelta(days=number) for number in range(6)]
    assert [epochs.for_day(one) for one in days] == [7, 7, 7, 4, 6, 6]
    assert epochs.highest == 7
