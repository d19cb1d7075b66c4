"""`tally stores import`: which closed days get other numbers, and rules that need a revision."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tally.errors import BadSettings
from tests.unit.stack.commands.test_stores_command import home, tally, written

__all__ = ["home"]


def test_closed_days_that_a_change_moves_are_told(home: Path) -> None:
    tally(home, "import", written(home.parent, "367: {tz: Europe/Rome, groups: [west]}"))
    after = """
367:
  tz: Europe/Rome
  day_starts: "04:00"
  groups: [west]
  changes:
    2026-03-04: {visits: {enter_dbm: -75, revision: 1}}
    2026-03-11: {visits: {revision: 2}}
    2999-01-01: {groups: [east]}
"""

    told = json.loads(
        tally(home, "import", written(home.parent, after), "--dry-run", "--json").stdout
    )

    yesterday = str(datetime.now(UTC).date() - timedelta(days=1))
    assert told["moved"] == [
        {"store": "367", "field": "day_starts", "first": None, "last": yesterday},
        {"store": "367", "field": "visits", "first": "2026-03-04", "last": "2026-03-10"},
    ]
    said = tally(home, "import", written(home.parent, after), "--dry-run").stderr
    assert "367: day_starts: answers of closed days change, from the first day on until" in said


def test_visit_rules_of_days_that_have_begun_change_under_a_higher_revision_alone(
    home: Path,
) -> None:
    known = "367: {changes: {2026-03-04: {visits: {enter_dbm: -75, revision: 3}}}}"
    tally(home, "import", written(home.parent, known))

    refused = tally(home, "import", written(home.parent, known.replace("-75", "-70")))

    assert isinstance(refused.exception, BadSettings)
    assert "store 367: visits from 2026-03-04 on change" in str(refused.exception)
    assert "`revision: 4`" in str(refused.exception)
    revised = known.replace("-75", "-70").replace("3}", "4}")
    assert tally(home, "import", written(home.parent, revised)).exit_code == 0
    # Of days to come nothing is counted yet.
    later = revised.replace("}}}}", "}}, 2999-01-01: {visits: {gap_minutes: 30}}}}")
    assert tally(home, "import", written(home.parent, later)).exit_code == 0
