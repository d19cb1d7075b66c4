"""`tally alerts simulate` over the API of this process's memory, on a real socket."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from alerting.simulate import service
from ops.cli.alerts.simulation import CALM, RAISED, UNKNOWN, time_line
from tally.errors import TallyError
from tests.support.evaluation.evaluating import BUSY, DAY, ListedRules, Watched, in_force, sold
from tests.support.evaluation.simulate_command import simulate_command
from tests.support.serving.serving_world import flip, sale

EVE = "2026-11-23"
SPAN = ("--from", f"{DAY}T08:00:00Z", "--to", f"{DAY}T12:00:00Z")
FILE = """\
rule_id: busy
metric: transactions
condition: {op: ">=", value: 4}
"""


@pytest.fixture
def store() -> Iterator[Watched]:
    """A store whose evaluator has told of 09:00, and one that was calm."""
    with closing(Watched(ListedRules(in_force(BUSY, f"{DAY}T08:00")))) as found:
        found.sends("2026-11-20")
        found.tick(f"{DAY}T07:50")
        _morning(found)
        yield found


def _morning(found: Watched) -> None:
    for one, count in (("09:00", 7), ("09:15", 1), ("10:00", 4)):
        sold(found, one, count)
        sold(found, one, count, generation=1)
    found.store = "406"
    found.sends("2026-11-20")
    found.store = "367"
    found.publish(flip(EVE, 1, f"{DAY}T18:00", 0))
    found.publish(flip(DAY, 1, f"{DAY}T18:00", 0, covered_until=f"{DAY}T11:00"))
    found.tick(f"{DAY}T18:30")


@pytest.fixture
def tally(store: Watched, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Runs `tally alerts simulate` over what the store has told by then."""
    with simulate_command(store, monkeypatch, tmp_path) as run:
        yield run


def test_each_episode_is_a_line_and_each_store_with_one_a_line_of_time(tally: Any) -> None:
    done = tally("busy", *SPAN)

    assert done.exit_code == 0, done.output
    [line] = [one for one in done.stdout.splitlines() if one.startswith("367 ")]
    assert (line.count(RAISED) > 0, line.endswith(UNKNOWN)) == (True, True)
    [row] = [one.split() for one in done.stdout.splitlines() if "09:00Z" in one]
    assert row == ["367", f"{DAY}T09:00Z", f"{DAY}T09:15Z", "7", "5"]
    assert f"not served complete: {DAY} (4 of 16 quarters), of stores 367, 406" in done.stderr


def test_json_has_all_pages_as_one_object(tally: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_STORE_DAYS", 0)
    found = json.loads(tally("busy", *SPAN, "--json").stdout)

    assert (found["stores"], found["complete"], "next" in found) == (["367", "406"], False, False)
    assert [one["start"] for one in found["episodes"]] == [f"{DAY}T09:00:00Z"]
    assert len(found["incomplete"]) == 2


def test_file_is_simulated_in_the_place_of_the_rule(tally: Any, tmp_path: Path) -> None:
    file = tmp_path / "busy.yaml"
    file.write_text(FILE, "utf-8")

    found = json.loads(tally(str(file), *SPAN, "--store", "367", "--json").stdout)

    assert [one["start"][11:16] for one in found["episodes"]] == ["09:00", "10:00"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nobody", *SPAN), 1, "alerts: 404 there is no rule 'nobody'"),
        (("busy", "--from", "then", "--to", DAY), 1, "alerts: 422 from: 'then'"),
        (("nowhere.yaml", *SPAN), 2, "cannot be read"),
        (("./busy", *SPAN), 2, "cannot be read"),
    ],
)
def test_what_cannot_be_simulated_is_one_line(
    tally: Any, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = tally(*arguments)

    assert done.exit_code == code, done.output
    told = str(done.exception) if isinstance(done.exception, TallyError) else done.stderr
    assert said in told


def test_file_that_is_no_rule_is_refused_by_its_fields(tally: Any, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("rule_id: bad\ncolour: red\n", "utf-8")

    done = tally(str(file), *SPAN)

    assert (done.exit_code, "colour" in done.stderr) == (2, True)


def test_without_a_store_that_is_the_rules_it_is_said(tally: Any, store: Watched) -> None:
    store.world.activity.clear()

    assert "no store that was asked for is the rule's" in tally("busy", *SPAN).stderr


def drawn(store: str, start: str, end: str | None, subject: str = "none") -> dict[str, Any]:
    """An entry of an answer, between two times of DAY; an end of None is open."""
    until = None if end is None else f"{DAY}T{end}:00Z"
    return {"store_id": store, "subject": subject, "start": f"{DAY}T{start}:00Z", "end": until}


def test_line_of_time_shows_whatever_lies_in_a_sign() -> None:
    answer = {
        "from": f"{DAY}T00:00:00Z",
        "to": f"{DAY}T10:00:00Z",
        "episodes": [
            drawn("1", "02:15", "02:30"),
            {**drawn("1", "00:00", "01:00"), "start": f"{EVE}T22:00:00Z"},
            drawn("1", "09:45", None),
            drawn("2", "05:00", None),
            drawn("2", "00:00", "01:00", "item:milk"),
        ],
        "incomplete": [drawn("1", "04:00", "06:00")],
    }

    signs = (RAISED, CALM, RAISED, CALM, UNKNOWN, UNKNOWN, CALM, CALM, CALM, RAISED)
    assert time_line(answer, "1", 10) == "".join(signs)
    assert time_line(answer, "2", 1) == RAISED
    assert time_line(answer, "2", 10, "item:milk") == RAISED + CALM * 9
    assert time_line(answer, "3", 3) == CALM * 3


def test_a_store_whose_id_is_long_keeps_its_line_in_shape(tally: Any, store: Watched) -> None:
    store.store = "s" * 64
    store.sends("2026-11-20")
    store.world.rows.append(sale(store.store, f"{DAY}T09:00", 7, 700, generation=1))

    done = tally("busy", *SPAN)

    assert done.exit_code == 0 and "ssss" in done.stdout
