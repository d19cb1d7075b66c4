"""What the API answers about the example world: the same tests run in memory and on a real
Cassandra."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tests.support.serving.published import unlike
from tests.support.serving.serving_example import DIRTY, NEW, SETTLED

Ask = Callable[..., httpx.Response]
DAY = {"store": "367", "from": SETTLED, "to": NEW}
FINAL = {"status": "final", "complete": True}
PROVISIONAL = {"status": "provisional", "complete": False}


@contextmanager
def asking(app: FastAPI) -> Iterator[Ask]:
    """A function that asks the application in this process, all on one event loop:
    ask("/v1/stores", limit="1").

    At the end each answer has to be what the application publishes of it: not before, for some
    tests measure the time of an answer.
    """
    answers: list[httpx.Response] = []
    with asyncio.Runner() as runner:
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://tally"
        )

        def ask(
            path: str,
            headers: Mapping[str, str] | None = None,
            body: Any = None,
            **parameters: Any,
        ) -> httpx.Response:
            # What has a body is sent; all other addresses are read.
            method = "GET" if body is None else "POST"
            named = parameters or None
            # Bytes as they are; everything else as JSON.
            content = {"content": body} if isinstance(body, bytes) else {"json": body}
            asked = client.request(method, path, params=named, headers=headers, **content)
            answers.append(runner.run(asked))
            return answers[-1]

        yield ask
        runner.run(client.aclose())
    assert [line for answer in answers for line in unlike(app, answer)] == []


def rows(answer: httpx.Response) -> dict[str, dict[str, Any]]:
    """The rows by start, of a 200."""
    assert answer.status_code == 200, answer.text
    return {row["start"]: row for row in answer.json()["rows"]}


def window(ask: Ask, metric: str, start: str, store: str = "367") -> dict[str, Any]:
    """The row of one quarter hour, without its instants."""
    end = (
        f"{start[:-2]}{int(start[-2:]) + 15:02d}"
        if not start.endswith("45")
        else f"{start[:-5]}{int(start[-5:-3]) + 1:02d}:00"
    )
    (row,) = rows(
        ask(f"/v1/metrics/{metric}", store=store, **{"from": f"{start}:00Z", "to": f"{end}:00Z"})
    ).values()
    return {name: value for name, value in row.items() if name not in ("start", "end")}


def as_row(
    value: int | None, events: int | None, source: str, worth: Mapping[str, Any]
) -> dict[str, Any]:
    """The row of a quarter hour as window() has it; `worth` is FINAL or PROVISIONAL."""
    return {"value": value, "events": events, "source": source, **worth}


class ApiSuite:
    """Tests that need the fixture `ask`."""

    def test_window_with_the_same_events_on_both_sides_is_served_from_batch(self, ask: Ask) -> None:
        assert window(ask, "revenue", f"{SETTLED}T10:00") == as_row(300, 2, "batch", FINAL)

    def test_window_of_which_batch_saw_more_is_served_from_batch(self, ask: Ask) -> None:
        assert window(ask, "revenue", f"{SETTLED}T10:15") == as_row(600, 3, "batch", FINAL)
        assert window(ask, "gross_revenue", f"{SETTLED}T10:15")["value"] == 700

    def test_window_of_which_speed_saw_more_is_speeds_less_the_conflict_and_provisional(
        self, ask: Ask
    ) -> None:
        assert window(ask, "revenue", f"{SETTLED}T10:30") == as_row(900, 3, "speed", PROVISIONAL)
        assert window(ask, "transactions", f"{SETTLED}T10:30")["value"] == 2

    def test_empty_window_is_zero_when_covered_and_missing_when_not(self, ask: Ask) -> None:
        assert window(ask, "revenue", f"{SETTLED}T12:00") == as_row(0, 0, "batch", FINAL)
        assert window(ask, "revenue", f"{NEW}T12:00") == as_row(None, None, "missing", PROVISIONAL)

    def test_window_that_only_speed_knows_is_provisional(self, ask: Ask) -> None:
        assert window(ask, "transactions", f"{NEW}T08:00") == as_row(4, 4, "speed", PROVISIONAL)

    def test_window_whose_value_a_later_generation_changed_is_restated(self, ask: Ask) -> None:
        assert window(ask, "revenue", f"{SETTLED}T11:00") == {
            "value": 800,
            "events": 2,
            "source": "batch",
            "status": "restated",
            "complete": True,
        }

    def test_day_with_records_beyond_the_pin_is_provisional_for_the_stores_of_that_partition_only(
        self, ask: Ask
    ) -> None:
        assert window(ask, "revenue", f"{DIRTY}T09:00") == as_row(250, 1, "batch", PROVISIONAL)
        assert window(ask, "revenue", f"{DIRTY}T09:00", store="406") == as_row(0, 0, "batch", FINAL)

    def test_window_that_ends_after_covered_until_is_not_covered(self, ask: Ask) -> None:
        assert window(ask, "revenue", f"{DIRTY}T11:45", store="406")["source"] == "batch"
        assert window(ask, "revenue", f"{DIRTY}T12:00", store="406")["source"] == "missing"

    def test_units_are_thousandths_divided(self, ask: Ask) -> None:
        assert window(ask, "units", f"{SETTLED}T10:15")["value"] == 3

    def test_ratio_is_sum_by_sum_with_its_two_sides(self, ask: Ask) -> None:
        row = window(ask, "average_basket", f"{SETTLED}T10:00")
        assert (row["value"], row["numerator"], row["denominator"]) == (150.0, 300, 2)

    def test_ratio_over_nothing_is_null_but_not_missing(self, ask: Ask) -> None:
        row = window(ask, "average_basket", f"{SETTLED}T12:00")
        assert (row["value"], row["numerator"], row["denominator"], row["source"]) == (
            None,
            0,
            0,
            "batch",
        )

    def test_conversion_joins_two_families(self, ask: Ask) -> None:
        row = window(ask, "conversion", f"{SETTLED}T10:00")
        assert (row["value"], row["numerator"], row["denominator"], row["status"]) == (
            0.2,
            2,
            10,
            "final",
        )

    def test_conversion_without_counters_is_missing(self, ask: Ask) -> None:
        row = window(ask, "conversion", f"{NEW}T08:00")
        assert (row["value"], row["numerator"], row["source"]) == (None, None, "missing")

    def test_reserved_column_of_traffic_is_read(self, ask: Ask) -> None:
        assert window(ask, "visitors_in", f"{SETTLED}T10:00") == as_row(10, 5, "batch", FINAL)

    def test_day_is_the_sum_of_its_windows(self, ask: Ask) -> None:
        (row,) = rows(ask("/v1/metrics/revenue", **DAY, grain="1d")).values()
        assert row == {
            "start": f"{SETTLED}T00:00:00Z",
            "end": f"{NEW}T00:00:00Z",
            "value": 300 + 600 + 900 + 800,
            "events": 10,
            "source": "mixed",
            **PROVISIONAL,
        }

    def test_hours_and_quarter_hours_list_every_stretch(self, ask: Ask) -> None:
        assert [
            len(rows(ask("/v1/metrics/revenue", **DAY, grain=grain)))
            for grain in ("15m", "1h", "1d")
        ] == [96, 24, 1]

    def test_envelope_of_one_store(self, ask: Ask) -> None:
        body = ask(
            "/v1/metrics/revenue",
            store="367",
            grain="1d",
            tz="UTC",
            **{"from": SETTLED, "to": "2017-09-22"},
        ).json()
        assert {name: value for name, value in body.items() if name != "rows"} == {
            "metric": "revenue",
            "name": "Revenue",
            "unit": "minor",
            "currency": "USD",
            "store": "367",
            "from": f"{SETTLED}T00:00:00Z",
            "to": "2017-09-22T00:00:00Z",
            "grain": "1d",
            "tz": "UTC",
            "by": [],
            "as_of": None,
            "source": "mixed",
            **PROVISIONAL,
            "through": None,
            "master_behind_since": None,
            "numbering": [],
            "gaps": [],
            "speed": {"offsets": {"0": 40, "1": 120}, "late_since_pin": 2},
            "next": None,
        }

    def test_through_is_the_earliest_of_the_asked_days(self, ask: Ask) -> None:
        assert ask("/v1/metrics/revenue", **DAY).json()["through"] == "2017-09-22T00:00:00Z"

    def test_as_of_answers_from_the_generation_of_that_time_alone(self, ask: Ask) -> None:
        body = ask("/v1/metrics/revenue", **DAY, grain="1d", as_of="2017-09-21T00:00:00Z").json()
        assert (body["rows"][0]["value"], body["rows"][0]["source"], body["speed"]) == (
            300 + 600 + 300,
            "batch",
            None,
        )

    def test_as_of_before_the_first_flip_is_missing(self, ask: Ask) -> None:
        body = ask("/v1/metrics/revenue", **DAY, grain="1d", as_of="2017-09-19T00:00:00Z").json()
        assert (body["rows"][0]["value"], body["rows"][0]["source"]) == (None, "missing")

    def test_local_day_takes_the_zones_quarter_hours(self, ask: Ask) -> None:
        asked = {"store": "367", "from": SETTLED, "to": NEW, "grain": "1d", "tz": "Asia/Kathmandu"}
        (row,) = rows(ask("/v1/metrics/revenue", **asked)).values()
        assert (row["start"], row["end"]) == (f"{SETTLED}T00:00:00+05:45", f"{NEW}T00:00:00+05:45")

    def test_several_stores_are_series_in_the_order_asked(self, ask: Ask) -> None:
        body = ask("/v1/metrics/revenue", **{**DAY, "store": "406,367"}, grain="1d").json()
        assert [(one["store"], one["rows"][0]["value"]) for one in body["series"]] == [
            ("406", 90),
            ("367", 2600),
        ]
        assert "rows" not in body

    def test_all_stores_are_series_by_id(self, ask: Ask) -> None:
        body = ask("/v1/metrics/transactions", **{**DAY, "store": "all"}, grain="1d").json()
        assert [one["store"] for one in body["series"]] == ["367", "406", "500"]

    def test_several_currencies_do_not_add_up(self, ask: Ask) -> None:
        answer = ask("/v1/metrics/revenue", **{**DAY, "store": "500"})
        assert (answer.status_code, answer.json()["errors"][0]["nearest"]) == (422, ["currency"])

    @pytest.mark.parametrize("by", ["currency", "currency,currency"])
    def test_by_currency_has_a_row_for_each(self, ask: Ask, by: str) -> None:
        body = ask("/v1/metrics/revenue", **{**DAY, "store": "500"}, by=by, grain="1d").json()
        assert [(row["by"], row["value"]) for row in body["rows"]] == [
            ({"currency": "EUR"}, 60),
            ({"currency": "USD"}, 10),
        ]

    def test_receipts_of_several_currencies_add_up(self, ask: Ask) -> None:
        assert window(ask, "transactions", f"{SETTLED}T10:00", store="500")["value"] == 3

    def test_pages_follow_each_other_without_gap_or_overlap(self, ask: Ask) -> None:
        whole = ask("/v1/metrics/revenue", **{**DAY, "store": "367,406"}).json()["series"]
        found: list[tuple[str, dict[str, Any]]] = []
        address: str | None = f"/v1/metrics/revenue?store=367,406&from={SETTLED}&to={NEW}&limit=50"
        while address:
            page = ask(address).json()
            found += [(one["store"], row) for one in page["series"] for row in one["rows"]]
            address = page["next"]
        assert found == [(one["store"], row) for one in whole for row in one["rows"]]

    def test_stores_have_names_zones_and_active_days(self, ask: Ask) -> None:
        body = ask("/v1/stores", limit="1").json()
        assert body == {
            "stores": [
                {
                    "store_id": "367",
                    "name": "367",
                    "tz": "UTC",
                    "currency": "USD",
                    "first_day": SETTLED,
                    "last_day": DIRTY,
                },
            ],
            "next": body["next"],
        }
        assert ask(body["next"]).json()["stores"][0]["store_id"] == "406"

    def test_explain_names_both_sides_and_the_rule(self, ask: Ask) -> None:
        body = ask("/v1/explain", store="367", window=f"{SETTLED}T10:31:00Z").json()
        assert (
            body["because"] == "speed: the side that has seen more events wins (batch 2, speed 3)"
        )
        assert (
            body["batch"]["events"],
            body["speed"]["events"],
            body["generation"]["generation"],
        ) == (2, 3, 7)
        assert body["served"]["rows"][0]["gross_minor"] == 900

    def test_ready_when_the_tables_can_be_read(self, ask: Ask) -> None:
        answer = ask("/readyz")
        assert (
            answer.status_code,
            answer.json()["ready"],
            answer.json()["checks"]["views"]["ok"],
        ) == (200, True, True)
