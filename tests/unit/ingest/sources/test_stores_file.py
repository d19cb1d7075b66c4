"""What the stores file decides at ingest: currency and numbering; and what is wrong in it is
named."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ingest.installation.arrival import Rules
from runtime.registry.stores import StoreEntry, load_stores
from tally.config.settings import Settings
from tally.errors import BadSettings
from tests.unit.ingest.messages import pos, receipt


def rules(folder: Path, text: str, **settings: Any) -> Rules:
    file = folder / "stores.yaml"
    file.write_text(text, "utf-8")
    return Rules.from_settings(Settings(stores_file=file, **settings))


def epochs(made_by: Rules, *instants: str, **fields: Any) -> list[str]:
    return [
        receipt(pos(operation_id="367", happened_at=at, **fields), made_by).numbering_epoch
        for at in instants
    ]


def test_daily_numbering_makes_the_same_number_of_another_day_another_receipt(
    tmp_path: Path,
) -> None:
    daily = rules(tmp_path, "367: {tz: America/New_York, numbering: daily}")

    # Midnight in New York is 04:00 UTC in summer.
    assert epochs(daily, "2017-09-19T03:59:59Z", "2017-09-19T04:00:00Z") == [
        "2017-09-18",
        "2017-09-19",
    ]
    ids = {
        receipt(pos(operation_id="367", happened_at=at), daily).event_id
        for at in ("2017-09-18T12:00:00Z", "2017-09-19T12:00:00Z")
    }
    assert ids == {"pos:367:123:2017-09-18:42", "pos:367:123:2017-09-19:42"}


def test_yearly_numbering_goes_by_the_stores_own_new_year(tmp_path: Path) -> None:
    yearly = rules(tmp_path, "367: {tz: Asia/Tokyo, numbering: yearly}")

    assert epochs(yearly, "2016-12-31T14:59:59Z", "2016-12-31T15:00:00Z") == ["2016", "2017"]


@pytest.mark.parametrize(
    ("at", "day"),
    [
        ("2017-03-25T23:00:00Z", "2017-03-26"),
        ("2017-03-26T21:59:59Z", "2017-03-26"),
        ("2016-10-29T22:00:00Z", "2016-10-30"),
        ("2016-10-30T22:59:59Z", "2016-10-30"),
    ],
)
def test_days_of_a_clock_change_have_one_epoch(tmp_path: Path, at: str, day: str) -> None:
    assert epochs(
        rules(tmp_path, "367: {numbering: daily}", default_timezone="Europe/Rome"), at
    ) == [day]


def test_an_epoch_that_the_till_names_goes_before_the_rule_and_other_stores_have_none(
    tmp_path: Path,
) -> None:
    daily = rules(tmp_path, "367: {numbering: daily}")

    assert epochs(daily, "2017-09-19T12:00:00Z", numbering_epoch="7") == ["7"]
    assert receipt(pos(operation_id="368"), daily).numbering_epoch == "0"


@pytest.mark.parametrize(
    ("said", "epoch"),
    [
        ({"happened_at": "2017-09-18T20:00:00Z"}, "2017-09-18"),
        ({"happened_at": "2017-09-19T20:00:00Z"}, "2017-09-19"),
        ({"numbering_epoch": "shift-3"}, "shift-3"),
        ({"happened_at": "2017-09-18T20:00:00Z", "numbering_epoch": "shift-3"}, "shift-3"),
    ],
)
def test_a_void_names_a_receipt_of_the_run_that_it_was_closed_in(
    tmp_path: Path, said: dict[str, str], epoch: str
) -> None:
    daily = rules(tmp_path, "367: {numbering: daily}")
    named = {"vendor_fiscal_module": 5, "transaction_id": 41, **said}

    voids = receipt(pos(operation_id="367", kind="void", voids=named), daily).voids

    assert voids is not None
    assert (voids.till_id, voids.transaction_id, voids.numbering_epoch) == ("5", "41", epoch)


def test_the_first_day_of_all_has_an_epoch_west_of_greenwich_too(tmp_path: Path) -> None:
    found = rules(tmp_path, "367: {tz: America/New_York, numbering: daily}")
    since_ever = replace(found, earliest_event=date.min)

    assert epochs(since_ever, "0001-01-01T00:00:00Z") == ["0001-01-01"]


def test_ids_and_texts_are_read_as_they_are_written(tmp_path: Path) -> None:
    file = tmp_path / "stores.yaml"
    file.write_text("0367: {currency: EUR}\nNO: {name: 7, tz: Europe/Oslo}\n1:\n", "utf-8")

    assert load_stores(file) == {
        "0367": StoreEntry(currency="EUR"),
        "NO": StoreEntry(name="7", tz="Europe/Oslo"),
        "1": StoreEntry(),
    }
    assert load_stores(None) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "367: {currancy: EUR}",
            "store 367.currancy: unknown field; known are name, tz, currency, numbering",
        ),
        (
            "367: {currency: XXX}",
            "store 367.currency: 'XXX' does not fit; wanted: a currency of ISO 4217",
        ),
        (
            "367: {currency: }",
            "store 367.currency: '' does not fit; wanted: a currency of ISO 4217, e.g. EUR; leave",
        ),
        (
            "367: {tz: Mars/Olympus}",
            "store 367.tz: 'Mars/Olympus' does not fit; wanted: an IANA time zone",
        ),
        ("367: {tz: ../../etc/passwd}", "store 367.tz: '../../etc/passwd' does not fit"),
        (
            "367: {numbering: weekly}",
            "store 367.numbering: 'weekly' does not fit; wanted: daily or",
        ),
        ("367: [EUR]", "store 367: fields are wanted"),
        ("367: {name: [a]}", "store 367.name: ['a'] does not fit; wanted: a text"),
        ("a b: {currency: EUR}", "store 'a b': 'a b' is not 1 to 64 of"),
        ("- 367", "store ids with their fields are wanted"),
        ("367: {", "cannot be read as YAML"),
        ("367: " + "[" * 3000, "cannot be read as YAML"),
        ("367: &a {tz: UTC}\n368: *a", "an alias is not taken"),
    ],
)
def test_what_is_wrong_in_the_file_is_named_with_its_fix(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(BadSettings) as refused:
        rules(tmp_path, text)

    assert (
        said in str(refused.value)
        and "stores.yaml" in str(refused.value)
        and "\n" not in str(refused.value)
    )


def test_a_file_that_is_not_there_and_wrong_defaults_are_named(tmp_path: Path) -> None:
    for settings, name in (
        (Settings(stores_file=tmp_path / "none.yaml"), "none.yaml"),
        (Settings(default_currency="XTS"), "TALLY_DEFAULT_CURRENCY: 'XTS'"),
        (Settings(default_timezone="CEST?"), "TALLY_DEFAULT_TIMEZONE: 'CEST?'"),
    ):
        with pytest.raises(BadSettings, match=r"\S") as refused:
            Rules.from_settings(settings)
        assert name in str(refused.value)


@pytest.mark.parametrize(
    ("currency", "minor"),
    [("USD", 150), ("JPY", 2), ("BHD", 1500), ("CLF", 15000), ("UYW", 15000), ("HRK", 150)],
)
def test_money_is_in_the_minor_units_of_its_currency(currency: str, minor: int) -> None:
    made = receipt(
        pos(currency=currency, transactions=[{"item": "a", "price": "1.5", "amount": 1}])
    )

    assert (made.currency, made.gross_minor) == (currency, minor)


def test_currency_and_rounding_are_those_of_the_store_s_day_of_the_receipt(tmp_path: Path) -> None:
    """Croatia took the euro on the first of January 2017, had this been the year; the bar's New
    Year's Eve lasts until four."""
    bar = rules(
        tmp_path,
        """
367:
  tz: Europe/Zagreb
  currency: HRK
  day_starts: "04:00"
  changes: {2017-01-01: {currency: EUR, rounding: half_even}}
""",
    )
    half = [{"item": "a", "price": "0.125", "amount": 1}]

    made = [
        receipt(pos(operation_id="367", happened_at=at, transactions=half), bar)
        for at in ("2017-01-01T02:59:59Z", "2017-01-01T03:00:00Z")
    ]

    assert [(one.currency, one.gross_minor) for one in made] == [("HRK", 13), ("EUR", 12)]
    # Sent again it is the same; and what names its currency has that.
    dollars = pos(operation_id="367", happened_at="2017-01-02T12:00:00Z", currency="USD")
    assert receipt(dollars, bar).currency == "USD"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("367: {sensors: [a]}", r"367.sensors: \['a'\] does not fit; wanted: serials with"),
        ("367: {sensors: {a: {device_id: d}, b: {device_id: d}}}", "another has the device_id d"),
        ("367: {sensors: {a: {since: 2026-05-02, until: 2026-05-01}}}", "is not after since"),
        (
            '367: {access_points: ["00:18:0A:00:00:01"]}\n406: {access_points: [0018.0a00.0001]}',
            "store 406: access point 00180a000001 is that of store 367 already",
        ),
        ("367: {access_points: [a b]}", r"access_points\[0\]: 'a b' is not 1 to 64 of"),
        ("367: {sensors: {a b: {}}}", "367.sensors.'a b': 'a b' is not 1 to 64 of"),
        ("367: {sensors: {a: {device_id: ..}}}", "sensors.a.device_id: '..' is not 1 to 64 of"),
        ("367: {sensors: {a: {interval: 60}}}", "sensors.a.interval: unknown field"),
        ("367: {sensors: {a: {interval_seconds: 3601}}}", "sensors.a.interval_seconds: .*3600"),
        ("367: {sensors: {a: {clock: millis}}}", "sensors.a.clock: .*rfc3339"),
        ("367: {sensors: {a: {clock_ahead_seconds: 1_0}}}", "clock_ahead_seconds: .*'1_0'"),
        ("367: {sensors: {a: {since: 20260501}}}", "sensors.a.since: '20260501' is no day"),
        ("367: {sensors: {a: {door: null}}}", "sensors.a: null is no value; leave the field out"),
        ("367: {sensors: {a: {exits: [in, out]}}}", "'in' is among its entries and its exits"),
        (
            "367: {tills: x, changes: {2026-05-01: {tills: y}}}\n368: {tz: Mars}",
            "367.tills: .*367.changes.2026-05-01.tills: .*368.tz: ",
        ),
        ("367: {sensors: {A: {}}}\n406: {sensors: {a: {}}}", "is that of store 367 already"),
        ("367: {sensors: {00-6E-02-00-00-01: {}, 006e02000001: {}}}", "store 367 already"),
    ],
)
def test_wrong_sensor_is_named_with_file_and_store(tmp_path: Path, text: str, wrong: str) -> None:
    with pytest.raises(BadSettings, match=wrong):
        rules(tmp_path, text)


def test_sensor_has_its_store_that_store_s_zone_and_its_own_name(tmp_path: Path) -> None:
    listed = rules(
        tmp_path, "367: {tz: Asia/Tokyo, sensors: {00:6E:02:00:00:01:7: {device_id: door-1}}}"
    )

    sensor = listed.sensor("006e02000001:7")
    assert (sensor.store_id, str(sensor.zone), sensor.device_id) == ("367", "Asia/Tokyo", "door-1")
    assert listed.sensor("006e02000001:8").store_id is None
    assert listed.sensor(7).store_id is None


def test_access_points_are_known_by_any_spelling_of_their_address(tmp_path: Path) -> None:
    file = tmp_path / "stores.yaml"
    spellings = '["00:18:0A:00:00:01", 0018.0a00.0002, 00-18-0a-00-00-03, 00180A000004, ap-5]'
    file.write_text(f"367: {{access_points: {spellings}}}", "utf-8")

    assert load_stores(file)["367"].access_points == (
        *(f"00180a00000{number}" for number in range(1, 5)),
        "ap-5",
    )
