"""Receipts and people counts of the last nine days up to this second, shipped settings: both layers
equal a plain oracle.

The tests of the class follow one another: each fixture is one step of the story.
"""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cassandra.cluster import Session

from tally.time.instants import format_utc
from tests.support import http
from tests.support.clients.gateway_client import GatewayClient
from tests.support.oracles.plain_oracle import QUARTER, Cell, differences, quarter
from tests.support.questions.answers import Span, asked_rows, expected_values, served, values
from tests.support.sources.generated import (
    DAYS,
    PATHS,
    STORES,
    Load,
    Sending,
    hourly,
    load,
    of_this_second,
)
from tests.support.stack.loop import Loop, wait_until
from tests.support.stack.tables import SOURCES, batch_rows, speed_rows

SEED = 9
METRICS = {"transactions": "pos", "revenue": "pos", "visitors_in": "traffic"}


@dataclass
class Story:
    """What was sent so far, and what it adds up to."""

    load: Load
    later: list[Sending] = field(default_factory=list)
    # time.monotonic() when everything but what changes a value had been sent.
    sent_at: float = 0.0

    @property
    def span(self) -> Span:
        """The days of the load, whole."""
        last = self.load.on_time[-1].sent_at.replace(hour=0, minute=0, second=0, microsecond=0)
        return last - timedelta(days=DAYS), last + timedelta(days=1)

    @property
    def past_days(self) -> str:
        """The days but the last, as --days takes them."""
        return f"{self.span[0].date()}..{self.span[1].date() - timedelta(days=2)}"

    def expected(self, metric: str) -> dict[Cell, int]:
        """What the API has to say of everything that was sent of these days."""
        values = expected_values(metric, self.load.expected(METRICS[metric], *self.later))
        return {
            cell: value for cell, value in values.items() if self.span[0] <= cell[1] < self.span[1]
        }


def now() -> datetime:
    """This second, in whole milliseconds."""
    instant = datetime.now(UTC)
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


class TestLastNineDays:
    @pytest.fixture(scope="package")
    @classmethod
    def sent(cls, loop: Loop, gateway: GatewayClient) -> Story:
        """Everything on time sent hour by hour, then receipts of this very second, until they
        are served, and at last the late ones."""
        story = Story(load(SEED, now()))
        for source, messages in hourly(story.load.on_time):
            gateway.post(PATHS[source], messages)
        loop.catch_up()
        started = time.monotonic()
        story.later += of_this_second(SEED, now())
        gateway.post(PATHS["pos"], [sending.message for sending in story.later])
        wait_until(lambda: is_served(loop, story), 300, "receipts of this second are served")
        print(
            f"{len(story.load.on_time):,} messages sent; receipts of this second served after"
            f" {time.monotonic() - started:.2f} s"
        )
        for source in PATHS:
            gateway.post(
                PATHS[source], [late.message for late in story.load.late if late.source == source]
            )
        loop.catch_up()
        story.sent_at = time.monotonic()
        return story

    @pytest.fixture(scope="package")
    @classmethod
    def rebuilt(cls, loop: Loop, sent: Story) -> Story:
        """A first generation.

        Nobody has said that these days were sent whole.
        """
        loop.rebuild_all_since(sent.sent_at)
        return sent

    @pytest.fixture(scope="package")
    @classmethod
    def declared(cls, loop: Loop, rebuilt: Story) -> Story:
        """The days before this one declared whole: the second generation is the first that
        covers their windows."""
        for family in SOURCES:
            assert (
                loop.run(
                    "backfill",
                    "declare",
                    family,
                    "--days",
                    rebuilt.past_days,
                    "--source",
                    "nine days",
                ).returncode
                == 0
            )
        loop.json("rebuild", "--days", rebuilt.past_days)
        # Numbers that were used twice keep their days open until somebody lets them stand.
        assert loop.accept_conflicts(STORES) > 0
        return rebuilt

    @pytest.fixture(scope="package")
    @classmethod
    def changed(cls, loop: Loop, declared: Story, gateway: GatewayClient) -> Sending:
        """A receipt that came days late, counted in the third generation of its day."""
        (late,) = of_this_second(SEED + 1, declared.span[0] + timedelta(days=4, hours=3), count=1)
        declared.later.append(late)
        gateway.post(PATHS["pos"], [late.message])
        loop.catch_up()
        loop.json("rebuild", "--dirty", "--family", "sales")
        return late

    @pytest.mark.parametrize("family", SOURCES)
    def test_speed_rows_equal_the_oracle_before_any_rebuild(
        self, sent: Story, session: Session, family: str
    ) -> None:
        expected = sent.load.expected_speed(
            SOURCES[family], *(sent.later if family == "sales" else ())
        )

        held = speed_rows(session, family)

        print(f"{family}: {len(expected):,} cells compared")
        assert len(expected) > 300 and differences(held, expected) == {}
        assert batch_rows(session, family) == {}

    @pytest.mark.parametrize("family", SOURCES)
    def test_rebuilt_rows_equal_the_oracle_with_the_late_ones(
        self, rebuilt: Story, session: Session, family: str
    ) -> None:
        expected = rebuilt.load.expected(
            SOURCES[family], *(rebuilt.later if family == "sales" else ())
        )

        # The other stories have stores of their own.
        held = {
            cell: parts for cell, parts in batch_rows(session, family).items() if cell[0] in STORES
        }
        assert differences(held, expected) == {}

    @pytest.mark.parametrize("metric", METRICS)
    def test_answers_equal_the_oracle_and_claim_nothing_of_days_before_the_first_arrival(
        self, loop: Loop, rebuilt: Story, metric: str
    ) -> None:
        rows = served(loop.settings.api, metric, STORES, rebuilt.span)

        assert differences(values(rows), rebuilt.expected(metric)) == {}
        assert worth_of_the_past(rebuilt, rows) == {("provisional", False)}

    @pytest.mark.parametrize("metric", METRICS)
    def test_declared_days_are_final(self, loop: Loop, declared: Story, metric: str) -> None:
        rows = served(loop.settings.api, metric, STORES, declared.span)

        assert differences(values(rows), declared.expected(metric)) == {}
        assert worth_of_the_past(declared, rows) == {("final", True)}

    @pytest.mark.parametrize(("day", "hours"), [("2017-03-26", 23), ("2017-10-29", 25)])
    def test_local_day_of_a_clock_change_has_its_hours_and_all_its_receipts(
        self, loop: Loop, rebuilt: Story, day: str, hours: int
    ) -> None:
        start = (
            datetime.fromisoformat(day).replace(tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC)
        )
        after = start + timedelta(hours=hours)
        of_the_day = rebuilt.load.expected("pos")

        asked = {
            "store": "n-eur",
            "from": format_utc(start),
            "to": format_utc(after),
            "grain": "1d",
            "tz": "Europe/Berlin",
        }
        (row,) = (
            http.get(f"http://{loop.settings.api}/v1/metrics/transactions", params=asked)
            .raise_for_status()
            .json()["rows"]
        )

        assert (
            row["value"]
            == sum(parts[0] for (_, at, _), parts in of_the_day.items() if start <= at < after)
            > 0
        )
        assert datetime.fromisoformat(row["end"]) - datetime.fromisoformat(
            row["start"]
        ) == timedelta(hours=hours)

    def test_value_that_changed_between_the_second_and_the_third_generation_is_restated(
        self, loop: Loop, declared: Story, changed: Sending
    ) -> None:
        day = quarter(changed.sent_at).replace(hour=0, minute=0)

        rows = asked_rows(loop.settings.api, "revenue", "n-usd", (day, day + timedelta(days=1)))

        assert [
            datetime.fromisoformat(row["start"]) for row in rows if row["status"] == "restated"
        ] == [quarter(changed.sent_at)]
        assert {row["status"] for row in rows} == {"final", "restated"}

    @pytest.mark.parametrize("metric", METRICS)
    def test_answers_equal_the_oracle_at_the_end(
        self, loop: Loop, declared: Story, changed: Sending, metric: str
    ) -> None:
        assert (
            differences(
                values(served(loop.settings.api, metric, STORES, declared.span)),
                declared.expected(metric),
            )
            == {}
        )

    def test_ledger_adds_up(self, loop: Loop, changed: Sending) -> None:
        assert loop.json("audit", "--only", "ledger")["ok"]


def is_served(loop: Loop, story: Story) -> bool:
    """Whether the API counts what was sent for the quarter hour of the latest receipts, in every
    store."""
    start = quarter(story.later[-1].sent_at)
    expected = expected_values("transactions", story.load.expected_speed("pos", *story.later))
    of_now = {cell: value for cell, value in expected.items() if cell[1] == start}
    return (
        values(served(loop.settings.api, "transactions", STORES, (start, start + QUARTER)))
        == of_now
    )


def worth_of_the_past(story: Story, rows: dict[Cell, dict[str, Any]]) -> set[tuple[str, bool]]:
    """Status and complete of all rows of the days before the last."""
    return {
        (row["status"], row["complete"])
        for (_, start, _), row in rows.items()
        if start < story.span[1] - timedelta(days=1)
    }
