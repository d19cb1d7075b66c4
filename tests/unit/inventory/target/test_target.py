"""The file of the target: taken as it is meant, or refused with what is wrong with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from inventory.sync.calls import GIVES_UP_AFTER, HOUR
from inventory.sync.target import read_target
from tally.errors import BadSettings

GOOD: dict[str, Any] = {
    "url": "https://inventory.example/v1",
    "mode": "idempotency_key",
    "secrets": ["inventory"],
}


def written(folder: Path, **changed: object) -> Path:
    file = folder / "target.json"
    file.write_text(json.dumps({**GOOD, **changed}), "utf-8")
    return file


def test_retries_end_an_hour_before_the_key_does(tmp_path: Path) -> None:
    target = read_target(written(tmp_path))

    assert target.rules.gives_up_after == 23 * HOUR
    assert (
        read_target(written(tmp_path, mode="compare_and_set")).rules.gives_up_after
        == GIVES_UP_AFTER
    )


def test_of_other_stores_nothing_is_told(tmp_path: Path) -> None:
    assert read_target(written(tmp_path)).covers_store("406")
    assert not read_target(written(tmp_path, stores=["367"])).covers_store("406")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"mode": "exactly_once"}, "mode"),
        ({"secrets": []}, "secrets"),
        ({"url": "ftp://inventory.example"}, "url"),
        ({"url": "https://anna:secret@inventory.example"}, "user"),
        ({"key_life_hours": 1}, "key_life_hours"),
        ({"reconcile_at": "25:00"}, "reconcile_at"),
        ({"reconcile_at": "03:00\n"}, "reconcile_at"),
        ({"stores": ["a|b"]}, "stores"),
        ({"token": "x"}, "token"),
    ],
)
def test_a_target_that_does_not_fit_is_refused_by_its_field(
    changed: dict[str, object], told: str, tmp_path: Path
) -> None:
    with pytest.raises(BadSettings, match="TALLY_STOCK_TARGET") as refused:
        read_target(written(tmp_path, **changed))

    assert told in str(refused.value)


@pytest.mark.parametrize("mode", ["sole", "at_least_once", "at_most_once"])
def test_a_mode_that_is_gone_is_refused_with_those_that_there_are(
    mode: str, tmp_path: Path
) -> None:
    with pytest.raises(BadSettings, match=mode) as refused:
        read_target(written(tmp_path, mode=mode))

    assert "one of idempotency_key, compare_and_set, absolute" in str(refused.value)


def test_without_a_file_it_says_which_setting_names_it(tmp_path: Path) -> None:
    for file in (None, tmp_path / "none.json"):
        with pytest.raises(BadSettings, match="TALLY_STOCK_TARGET"):
            read_target(file)
