"""The page of what does not count: letters by store and reason, conflicts of a store, and the fix
of each."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date

import pytest

from runtime.records.dead_letter import DeadLetter
from runtime.registry.sources import SALES
from schemas import loader
from serving.storage import dead_letters as letters_module
from serving.storage.dead_letters import LetterReader
from serving.storage.tables import TillFinding
from tally.config.settings import Settings
from tally.errors import StackError
from tests.support.questions.pages import Get, mounted, texts
from tests.support.serving.serving_example import SETTLED, example
from tests.support.serving.serving_world import MemoryViews
from tests.support.stack.letters import MemoryLetters, letter

STORE, OTHER = "367", "406"
LETTERS = [
    letter(STORE, 1),
    letter(STORE, 2, message="<b>/net_total</b>: is 5, and the lines come to 6"),
    letter(OTHER, 3, "unknown_sensor", field="/serial", message="/serial: no store has it"),
    letter(None, 4, "not_json", field="", message="is no JSON"),
]


@contextmanager
def pages(letters: MemoryLetters, *findings: TillFinding) -> Iterator[Get]:
    world = example()
    world.findings = [(SALES, STORE, one) for one in findings]
    with mounted(MemoryViews(world), Settings(), letters=letters) as get:
        yield get


def test_letters_are_counted_by_store_and_reason_with_the_newest_message_and_the_fix() -> None:
    with pages(MemoryLetters(LETTERS)) as get:
        answer = get("/refused")

    assert answer.status_code == 200
    cells = [one for one in texts(answer, "td") if one]
    rows = [cells[place : place + 3] for place in range(0, len(cells), 3)]
    assert rows == [
        ["total_mismatch", "2", "2026-11-20 10:02"],
        ["unknown_sensor", "1", "2026-11-20 10:03"],
        ["not_json", "1", "2026-11-20 10:04"],
    ]
    # As text and not as markup: somebody has typed it.
    said = texts(answer, "span")
    assert "<b>/net_total</b>: is 5, and the lines come to 6" in said
    fixes = loader.dead_letter_fixes()
    assert {fixes["total_mismatch"], fixes["not_json"]} <= set(said)
    assert [*texts(answer, "th")[6:]] == ["", "", "not known"]
    assert {STORE, OTHER} <= set(texts(answer, "a"))


def test_page_of_a_store_has_its_letters_and_its_open_conflicts_alone() -> None:
    day = date.fromisoformat(SETTLED)
    found = (
        TillFinding(day, "4", 200, 40),
        TillFinding(day, "5", 30, 1),
        TillFinding(day, "6", 30, 1, 1),
    )
    with pages(MemoryLetters(LETTERS), *found) as get:
        answer = get("/refused", store=STORE)
        other = get("/refused", store=OTHER)

    items = texts(answer, "li")
    assert [one.partition(":")[0] for one in items] == [
        f"{SETTLED}, till 4",
        f"{SETTLED}, till 5",
    ]
    typed = " ".join(texts(answer, "code"))
    assert "numbering: daily" in typed and "tally conflicts" in typed
    assert "total_mismatch" in texts(answer, "td") and "not_json" not in texts(answer, "td")
    assert texts(other, "li") == []


def test_page_says_so_where_there_is_nothing_and_where_nobody_answers() -> None:
    with pages(MemoryLetters()) as get:
        assert "0, the newest of each partition." in texts(get("/refused"), "p")
    with pages(MemoryLetters(None)) as get:
        answer = get("/refused")
    assert answer.status_code == 200 and "cannot be read now" in answer.text


@pytest.mark.parametrize("store", ["nobody", "<b>"])
def test_store_that_nobody_knows_is_not_found(store: str) -> None:
    with pages(MemoryLetters(LETTERS)) as get:
        assert get("/refused", store=store).status_code == 404


def test_a_failure_is_kept_for_some_seconds_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def fails(_settings: Settings, most: int) -> dict[str, DeadLetter]:
        asked.append(most)
        raise StackError("planted")

    monkeypatch.setattr(letters_module, "read_newest_letters", fails)

    async def twice() -> None:
        letters = LetterReader(Settings())
        for _ in range(2):
            with pytest.raises(StackError, match="planted"):
                await letters.newest()

    asyncio.run(twice())

    assert len(asked) == 1
