"""`tally alerts simulate` of a rule of stock: each article has its lines."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ops.cli.alerts import simulation
from ops.cli.alerts.simulation import RAISED
from tests.support.alerts.evaluated_shelves import (
    SOLD_OUT,
    deliver,
    look,
    open_shelves,
    rebuild,
    sell,
)
from tests.support.evaluation.evaluating import DAY, ListedRules, Watched, in_force
from tests.support.evaluation.simulate_command import simulate_command
from tests.support.questions.stock_world import moved

SPAN = ("--from", f"{DAY}T08:00:00Z", "--to", f"{DAY}T12:00:00Z")


@pytest.fixture
def store() -> Iterator[Watched]:
    """A store whose milk has run out, and whose bread has for a quarter of an hour."""
    rules = ListedRules(in_force(SOLD_OUT, f"{DAY}T08:00"))
    with closing(Watched(rules)) as shelves:
        open_shelves(shelves)
        sell(shelves, "09:01", 1, milk=10, bread=20)
        deliver(shelves, "09:15", "bread", (0, moved(30)))
        look(shelves, "10:02")
        rebuild(shelves, "2026-11-23", DAY)
        look(shelves, "10:04")
        yield shelves


@pytest.fixture
def tally(store: Watched, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    # On a narrow screen a long name takes several lines.
    monkeypatch.setenv("COLUMNS", "120")
    with simulate_command(store, monkeypatch, tmp_path) as run:
        yield run


def test_each_article_has_a_line_of_time_and_is_named_beside_its_episodes(tally: Any) -> None:
    done = tally("sold-out", *SPAN)

    assert done.exit_code == 0, done.output
    lines = [one for one in done.stdout.splitlines() if RAISED in one]
    assert [one.split()[:2] for one in lines[:2]] == [["367", "item:bread"], ["367", "item:milk"]]
    rows = [one.split() for one in done.stdout.splitlines() if f"{DAY}T09:00Z" in one]
    assert rows == [
        ["367", "item:bread", f"{DAY}T09:00Z", f"{DAY}T09:30Z", "0", "0"],
        ["367", "item:milk", f"{DAY}T09:00Z", "open", "0", "0"],
    ]


def test_of_many_articles_the_first_have_lines_and_all_are_in_the_table(
    tally: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "_MAX_LINES", 1)

    shown = tally("sold-out", *SPAN).stdout

    assert (shown.count("item:milk"), shown.count("item:bread")) == (1, 2)
    assert "and 1 more" in shown


def test_json_says_of_what_each_entry_is_and_how_many_articles_were_looked_at(tally: Any) -> None:
    found = json.loads(tally("sold-out", *SPAN, "--json").stdout)

    assert [one["subject"] for one in found["episodes"]] == ["item:bread", "item:milk"]
    assert found["articles"] == 2
