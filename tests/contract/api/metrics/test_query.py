"""`tally query` over HTTP, against the API on a free port."""

import json
import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar

import pytest
import uvicorn
from tenacity import retry, stop_after_delay, wait_fixed
from typer.testing import CliRunner

from ops.cli.app import build_app
from ops.cli.query import EQUAL_FIELDS, _caveats, _join, _text, fetch_answer
from runtime.registry.sources import SALES
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.families.family import Family
from tests.support.serving.serving_example import NEW, SETTLED, example
from tests.support.serving.serving_world import MemoryViews, flip
from web.api.app import create_app

LONG = {"from": "2017-06-01", "to": "2017-09-20"}


class FlippingViews(MemoryViews):
    """A rebuild publishes at the end of so many of the readers' first pages."""

    left: ClassVar = [0]

    async def late_since(self, family: Family, since: datetime) -> int:
        if self.left[0]:
            self.left[0] -= 1
            newest = max(one.generation for _, one in self.world.pointers)
            self.world.pointers.append(
                (SALES, flip(SETTLED, newest + 1, "2017-09-23T00:00", pin=100))
            )
        return await super().late_since(family, since)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    yield from serving(MemoryViews(example()))


@pytest.fixture(scope="module")
def flipping() -> Iterator[tuple[str, list[int]]]:
    for address in serving(FlippingViews(example())):
        yield address, FlippingViews.left


def serving(views: MemoryViews) -> Iterator[str]:
    app = create_app(Settings(), views)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    retry(stop=stop_after_delay(30), wait=wait_fixed(0.05))(lambda: server.servers[0])()
    yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


def asked(metric: str, *more: str) -> list[str]:
    return ["query", metric, "--store", "367", "--from", SETTLED, "--to", NEW, *more]


def test_json_is_the_apis_answer(address: str) -> None:
    result = CliRunner().invoke(
        build_app(), asked("revenue", "--grain", "1d", "--json"), env={"TALLY_API": address}
    )
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["metric"], answer["rows"][0]["value"]) == (0, "revenue", 2600)


def test_table_shows_the_value_and_where_it_is_from(address: str) -> None:
    result = CliRunner().invoke(
        build_app(), asked("revenue", "--grain", "1d"), env={"TALLY_API": address}
    )
    assert result.exit_code == 0
    assert all(
        word in result.stdout for word in ("Revenue (USD, minor)", "2,600", "mixed", "provisional")
    )
    assert "every record that had arrived by 2017-09-22T00:00:00Z is counted" in result.stderr


def test_pages_are_joined(address: str) -> None:
    stores = ["367", "406"]
    answer = fetch_answer(
        address,
        "transactions",
        {"store": ",".join(stores), "from": "2017-06-01", "to": "2017-09-20"},
    )
    assert [(one["store"], len(one["rows"])) for one in answer["series"]] == [
        (store, 111 * 96) for store in stores
    ]
    assert (answer["status"], answer["source"], answer["next"]) == ("provisional", "mixed", None)


def test_question_is_asked_anew_when_a_rebuild_publishes_between_its_pages(
    flipping: tuple[str, list[int]],
) -> None:
    address, left = flipping
    left[0] = 2
    answer = fetch_answer(address, "transactions", {"store": "367,406", **LONG})
    assert [(one["store"], len(one["rows"])) for one in answer["series"]] == [
        (store, 111 * 96) for store in ("367", "406")
    ]
    assert left == [0]


def test_question_that_rebuilds_overtake_each_time_is_given_up_in_words(
    flipping: tuple[str, list[int]],
) -> None:
    address, left = flipping
    left[0] = 99
    with pytest.raises(TallyError, match="a rebuild published between the pages 5 times"):
        fetch_answer(address, "transactions", {"store": "367,406", **LONG})


def test_pages_that_are_unlike_are_not_joined() -> None:
    euros, dollars = (dict.fromkeys(EQUAL_FIELDS, currency) for currency in ("EUR", "USD"))
    with pytest.raises(TallyError, match="they do not add up"):
        _join(euros, dollars)


def test_what_keeps_an_answer_from_being_final_is_noted() -> None:
    gap = {
        "topic": "sales",
        "partition": 1,
        "from_offset": 7,
        "until_offset": 12,
        "reason": "deleted",
    }
    till = {"store": "367", "till": "4", "day": "2017-09-19", "conflicts": 40, "records": 200}
    first, second, third = _caveats(
        {"master_behind_since": "2017-09-19T00:00:00Z", "gaps": [gap], "numbering": [till]}
    )
    assert "nothing is final" in first
    assert second == "5 records of sales-1 are gone: deleted"
    assert "till 4" in third


def test_withheld_values_are_counted_and_no_dash_that_could_be_a_hole() -> None:
    hidden: dict[str, Any] = {"start": "2026-11-23T10:00:00Z", "value": None, "suppressed": True}
    told = {"start": "2026-11-23T11:00:00Z", "value": None, "suppressed": False}
    answer = {"master_behind_since": None, "gaps": [], "numbering": [], "rows": [hidden, told]}

    assert [_text(row, "value") for row in (hidden, told)] == ["withheld", "–"]
    assert [*_caveats(answer)] == [
        "1 values are withheld: of too few devices, or of days not settled"
    ]


def test_refusal_is_the_apis_own_sentence(address: str) -> None:
    with pytest.raises(TallyError, match="there is no metric 'happiness'"):
        fetch_answer(address, "happiness", {"store": "367", "from": SETTLED, "to": NEW})


def test_api_that_does_not_run_is_named_with_the_fix() -> None:
    with pytest.raises(TallyError, match="start it with `tally up api`"):
        fetch_answer("127.0.0.1:1", "revenue", {})
