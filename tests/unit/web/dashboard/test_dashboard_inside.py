"""Persons inside on a store's page: the level of the last day, and who is left over."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tally.config.settings import Settings
from tests.support.questions.level_world import (
    MONDAY,
    PLAIN,
    PUB,
    STORES,
    SUNDAY,
    TUESDAY,
    crossed,
    level_world,
)
from tests.support.questions.pages import Get, mounted, with_attribute
from tests.support.serving.serving_world import MemoryViews


@pytest.fixture(scope="module")
def get(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Get]:
    world = level_world()
    world.pointers.pop()
    world.rows = [
        crossed(PUB, f"{SUNDAY}T01:45", 100, 0),
        crossed(PUB, f"{SUNDAY}T10:00", 9, 2),
        crossed(PUB, f"{MONDAY}T01:45", 1, 11),
        crossed(PUB, f"{MONDAY}T10:00", 5, 0),
        crossed(PLAIN, f"{TUESDAY}T10:00", 5, 0, None),
    ]
    file: Path = tmp_path_factory.mktemp("stores") / "stores.yaml"
    file.write_text(yaml.safe_dump({int(store): told for store, told in STORES.items()}))
    with mounted(MemoryViews(world), Settings(stores_file=file)) as function:
        yield function


def residues(get: Get, store: str, until: str) -> tuple[str, list[str]]:
    answer = get("/", store=store, days="7", until=until)
    return answer.text, [one["data-residue"] for one in with_attribute(answer, "data-residue")]


def test_page_shows_the_level_of_the_last_day_and_who_is_left_over(get: Get) -> None:
    text, found = residues(get, PUB, SUNDAY)

    assert found == ["-3"]
    # From four to four, and not the hundred of the night before; a step line with each quarter.
    assert "Sun 29 Mar: complete" in text and "until (Europe/Bratislava)" in text


def test_day_that_is_not_over_has_no_residue_yet(get: Get) -> None:
    text, found = residues(get, PUB, MONDAY)

    assert found == [""]
    assert "Mon 30 Mar: 88 of 96 quarter hours known: up to the first missing one" in text
    assert "Left over at the end of the day: not known before all of it is" in text


def test_day_that_nobody_has_counted_has_no_line(get: Get) -> None:
    text, found = residues(get, PLAIN, MONDAY)

    assert found == []
    assert "Mon 30 Mar: no people counter has reported anything for it" in text


def test_day_whose_first_quarter_hour_is_missing_is_not_known(get: Get) -> None:
    text, found = residues(get, PLAIN, TUESDAY)

    assert found == []
    assert "Tue 31 Mar: not known, for its first quarter hour is missing" in text
