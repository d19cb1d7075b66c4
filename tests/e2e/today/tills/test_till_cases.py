"""What real tills send (tests/support/sources/till_cases.yaml), through the running stack: each
number as the speed layer serves it and, after a rebuild, as batch does.

The tests follow one another: each fixture is one step of the story.
"""

import json
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import httpx
import pytest

from tally.time.instants import format_utc
from tally.time.windows import window_start
from tests.support import http
from tests.support.clients.gateway_client import GatewayClient
from tests.support.sources.till_cases import CASES, Question, bodies, questions, store_of
from tests.support.stack.loop import Loop, wait_until

CLOCK_STORE = "till-clock"
# A till's clock may be so far ahead of the gateway's; this one is half a minute farther.
TOLERANCE = timedelta(minutes=5)
(TABS,) = (store_of(number) for number, case in enumerate(CASES) if "conflicts" in case)


class Served(NamedTuple):
    """A number and the weakest status of its windows."""

    value: Any
    status: str


def asked(loop: Loop, question: Question) -> dict[str, Any]:
    """The answer of the API, by quarter hours."""
    by = {"by": "item_id"} if question.metric == "stock_on_hand" else {}
    span = {"store": question.store, "from": question.start, "to": question.end, "grain": "15m"}
    path = f"http://{loop.settings.api}/v1/metrics/{question.metric}"
    answer = http.get(path, params={**span, **by}, timeout=300)
    if answer.status_code == httpx.codes.NOT_FOUND:
        # Nobody has heard of the store.
        return {"rows": [], "status": "provisional", "complete": False, "numbering": []}
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


def served(loop: Loop, question: Question) -> Served:
    """The sum of the rows, by article where that is asked; None where no row has a value."""
    answer = asked(loop, question)
    rows = [row for row in answer["rows"] if row["value"] is not None]
    if not rows:
        return Served(None, answer["status"])
    if question.metric == "stock_on_hand":
        return Served({row["by"]["item_id"]: row["value"] for row in rows}, answer["status"])
    return Served(sum(row["value"] for row in rows), answer["status"])


def wrong(loop: Loop, wanted: dict[Question, Any]) -> list[tuple[Question, Any, Served]]:
    """The numbers that are not as wanted, each with what is served."""
    found = [(question, value, served(loop, question)) for question, value in wanted.items()]
    return [(question, value, answer) for question, value, answer in found if answer[0] != value]


class SentCases(NamedTuple):
    """The hour of everything that was sent, and time.monotonic() when it had been."""

    anchor: datetime
    at: float
    fast: dict[str, Any]

    def wanted(self, layer: str) -> dict[Question, Any]:
        """The numbers of all cases."""
        found: dict[Question, Any] = {}
        for number in range(len(CASES)):
            found |= questions(number, self.anchor, layer)
        return found


class TestTillCases:
    @pytest.fixture(scope="package")
    @classmethod
    def sent(cls, loop: Loop, gateway: GatewayClient) -> SentCases:
        """Every case, until everything is in both layers; first what is too early by half a
        minute."""
        anchor = window_start(datetime.now(UTC)) - timedelta(hours=1)
        early = {
            "operation_id": CLOCK_STORE,
            "vendor_fiscal_module": 1,
            "transaction_id": 1,
            "happened_at": format_utc(datetime.now(UTC) + TOLERANCE + timedelta(seconds=30)),
            "transactions": [{"item": "Bun", "price": "3.00", "amount": 1}],
        }
        body = json.dumps(early).encode()
        refused = gateway.offer("/v1/events/pos", body, "application/json")
        assert refused.status_code == httpx.codes.UNPROCESSABLE_ENTITY
        assert "future_time" in refused.text
        for number in range(len(CASES)):
            for one in bodies(number, anchor):
                answer = gateway.offer(one.path, one.text.encode(), one.media_type)
                told = (answer.status_code, answer.json()["accepted"], answer.json()["rejected"])
                assert told == (202, one.events, []), (CASES[number]["case"], answer.text)
        # The same message later is taken.
        wait_until(
            lambda: gateway.offer("/v1/events/pos", body, "application/json").status_code == 202,
            120,
            "the fast till's receipt is taken",
        )
        loop.catch_up()
        return SentCases(anchor, time.monotonic(), early)

    @pytest.fixture(scope="package")
    @classmethod
    def rebuilt(cls, loop: Loop, sent: SentCases) -> None:
        """After the rebuild that this story shares with others."""
        loop.rebuild_all_since(sent.at)

    def test_before_a_rebuild_each_number_is_right_or_provisional_as_the_model_allows(
        self, loop: Loop, sent: SentCases
    ) -> None:
        loop.wait_for_receipts()
        wanted, right = sent.wanted("speed"), sent.wanted("batch")
        # Everything is in both layers by now; answers are a few seconds behind.
        with suppress(AssertionError):
            wait_until(lambda: wrong(loop, wanted) == [], 300, "the speed layer has the cases")
        assert wrong(loop, wanted) == []

        others = [question for question in right if wanted.get(question) != right[question]]
        assert {served(loop, question).status for question in others} == {"provisional"}
        print(f"{len(wanted)} numbers compared, {len(others)} of them right after a rebuild only")

    def test_after_a_rebuild_each_number_is_right(
        self, loop: Loop, sent: SentCases, rebuilt: None
    ) -> None:
        wanted = sent.wanted("batch")

        assert wrong(loop, wanted) == []
        print(f"{len(wanted)} numbers of {len(CASES)} cases compared, 0 wrong")
        # A planted wrong number is found.
        planted = next(iter(wanted))
        assert [question for question, *_ in wrong(loop, wanted | {planted: -1})] == [planted]

    def test_a_till_with_a_fast_clock_is_counted_in_the_window_of_its_clock(
        self, loop: Loop, sent: SentCases, rebuilt: None
    ) -> None:
        start = window_start(datetime.fromisoformat(sent.fast["happened_at"]))
        span = (format_utc(start), format_utc(start + timedelta(minutes=15)))

        assert served(loop, Question(CLOCK_STORE, "revenue", *span)).value == 300

    def test_a_conflict_keeps_its_day_open_until_it_is_accepted(
        self, loop: Loop, sent: SentCases, rebuilt: None
    ) -> None:
        questions_of_all = sent.wanted("batch")
        found = {question.store: asked(loop, question) for question in questions_of_all}
        listed = loop.json("conflicts", "list")["conflicts"]

        assert [store for store, answer in found.items() if answer["numbering"]] == [TABS]
        assert not found[TABS]["complete"]
        mine = [one for one in listed if one["store_id"] == TABS]
        assert [(one["conflicts"], one["records"]) for one in mine] == [(1, 2)]
        refused = loop.json("refused")["refused"]
        told = [(one["reason"], one["events"]) for one in refused if one["store"] == TABS]
        assert told == [("conflict", 1)] and all(one["fix"] for one in refused)
        words = {one["message"] for one in refused if one["reason"] == "unmapped"}
        assert words == {"acs:NegativeItem", "VRExt:RXBag"}

        loop.json("conflicts", "accept", TABS, mine[0]["day"], "--reason", "a test")

        question = next(one for one in questions_of_all if one.store == TABS)
        assert asked(loop, question)["numbering"] == []
