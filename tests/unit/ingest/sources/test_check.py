"""`tally check` says what a body would count as, without a broker."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ingest.check import app
from tests.unit.ingest.messages import encoded, pos, with_line

POSLOG = """<Transaction><BusinessUnit><UnitID>1</UnitID></BusinessUnit>
    <WorkstationID>1</WorkstationID><SequenceNumber>7</SequenceNumber>
    <EndDateTime>2017-09-19T22:48:03Z</EndDateTime><RetailTransaction>
    <LineItem><Sale><Description>Hat</Description><ExtendedAmount>12.00</ExtendedAmount></Sale>
    </LineItem><LineItem><Discount><Amount>2.00</Amount></Discount></LineItem>
    </RetailTransaction></Transaction>"""


def checked(file: Path, *options: str) -> tuple[int, Any]:
    result = CliRunner().invoke(app, [str(file), "--json", *options])
    return result.exit_code, json.loads(result.stdout)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TALLY_HOME", str(tmp_path / "home"))

    def written(name: str, content: str) -> Path:
        file = tmp_path / name
        file.write_text(content, "utf-8")
        return file

    return written


def test_a_poslog_is_told_line_by_line(write: Any) -> None:
    code, told = checked(write("day.xml", POSLOG))

    (message,) = told["messages"]
    assert code == 0
    assert message["event_id"] == "pos:1:1:0:7"
    assert [line["adds"] for line in message["lines"]] == [
        {"gross_minor": 1200, "units_milli": 1000},
        {"discounts_minor": 200},
    ]
    assert told["adds"] == message["adds"]


def test_copies_count_once_and_what_is_refused_is_named(write: Any) -> None:
    lines = [pos(), pos(), with_line(price="x")]
    content = "\n".join(encoded(line).decode() for line in lines)

    code, told = checked(write("day.ndjson", content))

    assert code == 1
    assert told["adds"] == {"receipts": 1, "gross_minor": 198, "units_milli": 2000}
    assert told["messages"][2]["reason"] == "wrong_type"
    assert told["messages"][2]["at"] == "/transactions/0/price"


def test_a_void_takes_its_lines_back(write: Any) -> None:
    void = pos(kind="void", voids={"vendor_fiscal_module": 1, "transaction_id": 42})

    _, told = checked(write("void.json", encoded(void).decode()))

    (line,) = told["messages"][0]["lines"]
    assert line["adds"] == {"gross_minor": -198, "units_milli": -2000}


def test_a_body_that_is_none_is_refused_whole(write: Any) -> None:
    code, told = checked(write("day.xml", "<html/>"))

    assert (code, told["messages"][0]["reason"]) == (1, "missing_field")


def test_counts_of_people_can_be_checked_too(write: Any) -> None:
    interval = {
        "store_id": "367",
        "device_id": "door-1",
        "happened_at": "2017-09-19T22:45:00+00:00",
        "interval_seconds": 60,
        "in": 3,
        "out": 2,
    }

    code, told = checked(write("door.json", json.dumps(interval)), "--as", "traffic")

    assert (code, told["adds"]["entries"], told["adds"]["exits"]) == (0, 3, 2)


def test_a_form_that_there_is_not_is_named_with_those_there_are(write: Any) -> None:
    result = CliRunner().invoke(app, [str(write("a.json", "{}")), "--as", "pos/fax"])

    assert result.exit_code == 1
    assert "pos/poslog" in str(result.exception)


def test_a_table_has_each_line_for_people(write: Any) -> None:
    result = CliRunner().invoke(app, [str(write("day.xml", POSLOG))])

    assert "Hat" in result.stdout and "1 would be taken, 0 refused" in result.stdout
