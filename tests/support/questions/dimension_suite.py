"""What the API answers by dimensions that are no currency: the same tests run in memory and on a
real Cassandra."""

from datetime import date
from typing import Any

import msgspec
import pytest

from runtime.registry.sources import build_family
from schemas.metric import AnyMetric
from schemas.source import read_source
from serving.storage.tables import Activity, ViewRow
from tests.support.questions.api_suite import Ask
from tests.support.serving.serving_world import Stored, World, at, flip
from tests.support.sources.queues import know_queues
from tests.support.sources.sources import ELEVENTH

DAY, NEXT, AFTER = "2026-11-23", "2026-11-24", "2026-11-25"
PATH = "/v1/metrics/waiting_time"
# The eleventh source with a second dimension: which camera has seen the queue.
_ELEVENTH = read_source(ELEVENTH)
_TWO_AXES = msgspec.structs.replace(_ELEVENTH.family, axes=("queue", "device_id"))
SOURCE = msgspec.structs.replace(_ELEVENTH, family=_TWO_AXES)
FAMILY = build_family(SOURCE)
BOTH_DAYS = {"store": "367", "from": DAY, "to": AFTER, "grain": "1d"}
MORNING = {"store": "367", "from": f"{DAY}T10:00:00Z", "to": f"{DAY}T11:00:00Z", "grain": "15m"}


def metric() -> AnyMetric:
    """Its metric."""
    told = {
        **dict.fromkeys(("name", "formula", "meaning"), "Waiting time"),
        **{"id": "waiting_time", "unit": "person-seconds", "kind": "additive"},
        **{"families": ["queues"], "value": {"sum": {"waited_seconds": 1}}, "variants": []},
        **{"by": ["queue", "device_id"], "grains": ["15m", "1h", "1d", "1w"]},
    }
    made: AnyMetric = msgspec.convert(told, AnyMetric)
    return made


def know_dimensions(patched: pytest.MonkeyPatch) -> None:
    """This process has the family and its metric, beside those of the product."""
    know_queues(patched, FAMILY, [metric()])


def waited(store: str, start: str, place: tuple[str, str], seconds: int) -> Stored:
    """A row of a queue and a camera, of generation 1."""
    # One interval that brought its seconds, and one to each other part.
    brought = {"waited_seconds": seconds}
    parts = tuple(part.fold([0], [brought.get(part.name, 1)]) for part in FAMILY.parts)
    excluded = tuple(part.zero for part in FAMILY.parts)
    row = ViewRow(at(start), place, FAMILY.epoch, 1, parts, excluded)
    return Stored(FAMILY, store, row, 1)


def of_dimensions() -> World:
    """Two days of store 367 whose queues are not the same, and a queue of store 406."""
    world = World(
        rows=[
            waited("367", f"{DAY}T10:00", ("tills", "a"), 10),
            waited("367", f"{DAY}T10:15", ("tills", "b"), 4),
            waited("367", f"{DAY}T10:30", ("returns", "a"), 3),
            waited("367", f"{NEXT}T09:00", ("hall", "b"), 7),
            waited("367", f"{NEXT}T09:15", ("tills", "a"), 20),
            waited("406", f"{DAY}T10:00", ("door", "c"), 5),
        ],
        pointers=[(FAMILY, flip(day, 1, f"{AFTER}T02:00", pin=10)) for day in (DAY, NEXT)],
    )
    span = date(2026, 11, 23), date(2026, 11, 24)
    world.activity = [(FAMILY, Activity(store, *span)) for store in ("367", "406")]
    return world


def pages(ask: Ask, **asked: str) -> list[list[dict[str, Any]]]:
    """The rows of each page of an answer, each with its store."""
    answers = [ask(PATH, **asked)]
    while answers[-1].status_code == 200 and (address := answers[-1].json()["next"]):
        answers.append(ask(address))
    assert [one.status_code for one in answers if one.status_code != 200] == [], answers[-1].text
    return [
        [{**row, "store": one["store"]} for one in series for row in one["rows"]]
        for series in (_series(one.json()) for one in answers)
    ]


def _series(body: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body.get("series") or [
        {"store": body["store"], "rows": body["rows"]}
    ]
    return found


class DimensionSuite:
    """Tests that need the fixture `ask`, over of_dimensions()."""

    def test_each_page_has_the_queues_of_the_whole_question(self, ask: Ask) -> None:
        first, second = pages(ask, **BOTH_DAYS, by="queue", limit="3")

        assert [(row["start"][:10], row["by"]["queue"], row["value"]) for row in first] == [
            (DAY, "hall", 0),
            (DAY, "returns", 3),
            (DAY, "tills", 14),
        ]
        assert [(row["start"][:10], row["by"]["queue"], row["value"]) for row in second] == [
            (NEXT, "hall", 7),
            (NEXT, "returns", 0),
            (NEXT, "tills", 20),
        ]

    def test_queue_of_another_day_is_none_of_the_question(self, ask: Ask) -> None:
        asked = {**BOTH_DAYS, "to": NEXT}
        (page,) = pages(ask, **asked, by="queue")

        assert [row["by"]["queue"] for row in page] == ["returns", "tills"]

    @pytest.mark.parametrize("limit", ["3", "4", "7", "100"])
    @pytest.mark.parametrize("span", [BOTH_DAYS, MORNING], ids=["days", "quarter hours"])
    def test_no_page_has_more_rows_than_the_limit_and_all_are_there(
        self, ask: Ask, limit: str, span: dict[str, str]
    ) -> None:
        asked = {**span, "store": "all", "by": "queue"}
        whole = [row for page in pages(ask, **asked, limit="10000") for row in page]

        found = pages(ask, **asked, limit=limit)

        assert max(map(len, found)) <= int(limit)
        assert [row for page in found for row in page] == whole

    @pytest.mark.parametrize("limit", ["6", "8", "100"])
    def test_two_dimensions_have_a_row_for_each_pair_and_keep_the_limit(
        self, ask: Ask, limit: str
    ) -> None:
        found = pages(ask, **BOTH_DAYS, by="queue,device_id", limit=limit)

        rows = [row for page in found for row in page]
        assert max(map(len, found)) <= int(limit)
        assert [tuple(row["by"].values()) for row in rows] == [
            (queue, camera) for queue in ("hall", "returns", "tills") for camera in "ab"
        ] * 2
        assert [row["value"] for row in rows] == [0, 0, 3, 0, 10, 4, 0, 7, 0, 0, 20, 0]

    @pytest.mark.parametrize("by", ["queue", "device_id", "device_id,queue", "queue,queue"])
    def test_rows_of_a_stretch_sum_up_to_the_whole(self, ask: Ask, by: str) -> None:
        rows = [row for page in pages(ask, **BOTH_DAYS, by=by) for row in page]

        days = [
            sum(row["value"] for row in rows if row["start"][:10] == day) for day in (DAY, NEXT)
        ]
        assert days == [17, 27]

    def test_each_store_has_its_own_queues(self, ask: Ask) -> None:
        (page,) = pages(ask, **{**BOTH_DAYS, "store": "367,406", "to": NEXT}, by="queue")

        assert [(row["store"], row["by"]["queue"]) for row in page] == [
            ("367", "returns"),
            ("367", "tills"),
            ("406", "door"),
        ]

    @pytest.mark.parametrize(("by", "limit"), [("queue", "2"), ("queue,device_id", "5")])
    def test_stretch_that_has_more_rows_than_a_page_is_refused_with_what_to_do(
        self, ask: Ask, by: str, limit: str
    ) -> None:
        answer = ask(PATH, **BOTH_DAYS, by=by, limit=limit)

        (error,) = answer.json()["errors"]
        assert (answer.status_code, error["field"]) == (422, "by")
        assert error["message"].startswith(
            f"by: each stretch of store 367 has more than limit={limit} rows by {by};"
        )
        assert "higher limit" in error["message"] and "fewer" in error["message"]
