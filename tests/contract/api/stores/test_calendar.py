"""Days and weeks of a time zone, daylight saving included."""

from pathlib import Path

import pytest

from tally.config.settings import Settings
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.serving_example import example
from tests.support.serving.serving_world import MemoryViews
from web.api.app import create_app

PATH = "/v1/metrics/transactions"


@pytest.mark.parametrize(
    ("day", "after", "quarters"),
    [
        ("2017-03-26", "2017-03-27", 92),
        ("2017-09-19", "2017-09-20", 96),
        ("2017-10-29", "2017-10-30", 100),
    ],
)
def test_days_of_daylight_saving_have_92_96_or_100_quarter_hours(
    ask: Ask, day: str, after: str, quarters: int
) -> None:
    body = ask(PATH, store="367", tz="Europe/Rome", **{"from": day, "to": after}).json()
    assert len(body["rows"]) == quarters
    assert (body["rows"][0]["start"][:10], body["rows"][-1]["end"][:10]) == (day, after)


def test_the_repeated_hour_is_two_rows_told_apart_by_their_offset(ask: Ask) -> None:
    body = ask(
        PATH,
        store="367",
        tz="Europe/Rome",
        grain="1h",
        **{"from": "2017-10-29", "to": "2017-10-30"},
    ).json()
    starts = [row["start"] for row in body["rows"]]
    assert len(starts) == 25
    assert starts[2:4] == ["2017-10-29T02:00:00+02:00", "2017-10-29T02:00:00+01:00"]


def test_weeks_begin_on_the_zones_monday(ask: Ask) -> None:
    body = ask(
        PATH,
        store="367",
        tz="America/New_York",
        grain="1w",
        **{"from": "2017-09-18", "to": "2017-10-02"},
    ).json()
    assert [row["start"] for row in body["rows"]] == [
        "2017-09-18T00:00:00-04:00",
        "2017-09-25T00:00:00-04:00",
    ]
    assert body["rows"][0]["value"] == 2 + 3 + 2 + 2 + 4 + 1


def test_zone_of_each_store(tmp_path: Path) -> None:
    file = tmp_path / "stores.yaml"
    file.write_text(
        '"367": {name: Rome, tz: Europe/Rome}\n"900": {name: New, tz: Asia/Tokyo, currency: JPY}\n',
        "utf-8",
    )
    with asking(create_app(Settings(stores_file=file), MemoryViews(example()))) as ask:
        asked = {"from": "2017-09-19", "to": "2017-09-20", "grain": "1d", "tz": "store"}
        series = ask(PATH, store="367,900", **asked).json()["series"]
        listed = ask("/v1/stores").json()["stores"][-1]
    assert [one["rows"][0]["start"] for one in series] == [
        "2017-09-19T00:00:00+02:00",
        "2017-09-19T00:00:00+09:00",
    ]
    assert listed == {
        "store_id": "900",
        "name": "New",
        "tz": "Asia/Tokyo",
        "currency": "JPY",
        "first_day": None,
        "last_day": None,
    }
