"""What a client may do to the text of a rule: change sets of that text, within a bound."""

import json
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nicegui import Client, ui

from tally.config.settings import Settings
from tests.support.clients.measured_requests import MAX_BYTES, MAX_LOOP_SECONDS
from tests.support.evaluation.evaluating import BUSY, DAY, in_force
from tests.support.evaluation.simulating import WrittenRules, simulations_over
from tests.support.questions.pages import Get, mounted
from tests.support.questions.report_world import report_world
from tests.support.serving.serving_world import MemoryViews
from tests.support.stack.nominal_processor import slowness
from web.dashboard.rules.editor import MAX_SIGNS, change_problem


@pytest.fixture
def get() -> Iterator[Get]:
    views = MemoryViews(report_world())
    rules = WrittenRules(in_force(BUSY, f"{DAY}T08:00"))
    with mounted(views, Settings(), simulations_over(views, rules)) as function:
        yield function


class Edited:
    """A page of the editor, as its browser speaks to it."""

    def __init__(self, get: Get) -> None:
        assert get("/rules/busy/edit", store="367").status_code == 200
        [self.client] = Client.instances.values()
        elements = self.client.elements.values()
        [self.editor] = [one for one in elements if isinstance(one, ui.codemirror)]
        listeners = self.editor._event_listeners.values()
        [self._listener] = [one.id for one in listeners if one.type == "update:value"]

    @property
    def text(self) -> str:
        return self.editor.value or ""

    @property
    def is_open(self) -> bool:
        return self.client.id in Client.instances

    def send(self, change: Any) -> None:
        if self.is_open:
            message = {"id": self.editor.id, "listener_id": self._listener}
            self.client.handle_event({**message, "args": [json.dumps(change)]})

    def put_in(self, text: str) -> None:
        """Text at the end, as CodeMirror says it."""
        length = len(self.text.encode("utf-16-le")) // 2
        inserted = [[""], text.split("\n")]
        self.send({"sections": [length, -1, 0, len(text)], "inserted": inserted})


def test_what_is_typed_is_there(get: Get) -> None:
    edited = Edited(get)
    before = edited.text

    edited.put_in("# one 😀\n# two")
    edited.put_in("\n# three")

    assert edited.text == f"{before}# one 😀\n# two\n# three"
    assert edited.is_open


def test_a_text_that_is_doubled_by_negative_lengths_ends_its_client(get: Get) -> None:
    edited = Edited(get)
    edited.put_in("x" * 10_000)
    before, length = edited.text, len(edited.text)
    tracemalloc.start()
    began = time.thread_time()

    for _ in range(3):
        length = len(edited.text)
        sections = [length, -1, *[-length, -1, length, -1] * 20]
        edited.send({"sections": sections, "inserted": []})
    spent, peak = time.thread_time() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    print(f"{len(edited.text):,} signs kept, {spent:.3f} s, {peak / 2**20:.1f} MiB")
    assert (edited.text == before, edited.is_open) == (True, False)
    most_seconds = MAX_LOOP_SECONDS * slowness()
    assert (spent <= most_seconds, peak <= MAX_BYTES) == (True, True)


def test_a_text_beyond_the_bound_ends_its_client(get: Get) -> None:
    edited = Edited(get)
    edited.put_in("x" * (MAX_SIGNS - len(edited.text)))
    assert (len(edited.text), edited.is_open) == (MAX_SIGNS, True)

    edited.put_in("x")

    assert (len(edited.text), edited.is_open) == (MAX_SIGNS, False)


@pytest.mark.parametrize(
    "change",
    [
        None,
        7,
        "text",
        [],
        {},
        {"sections": []},
        {"sections": ["1"], "inserted": []},
        {"sections": [1.5, -1], "inserted": []},
        {"sections": [-1, 3], "inserted": [["abc"]]},
        {"sections": [0, -2], "inserted": []},
        {"sections": [10**9, -1], "inserted": []},
        {"sections": [0], "inserted": []},
        {"sections": [], "inserted": [["a"]] * 1_000},
        {"sections": [0, 1], "inserted": "a"},
        {"sections": [0, 1], "inserted": [[1]]},
    ],
)
def test_what_is_no_change_of_the_text_ends_its_client(get: Get, change: Any) -> None:
    edited = Edited(get)
    before = edited.text

    edited.send(change)

    assert (edited.text == before, edited.is_open) == (True, False)


def test_a_text_that_is_too_long_from_the_start_may_become_shorter() -> None:
    text = "x" * (MAX_SIGNS + 2)

    assert change_problem([len(text) - 1, -1, 1, 0], [], text, len(text)) == ""
    assert change_problem([len(text), -1, 0, 1], [[""], ["x"]], text, len(text)) != ""


@given(st.text("ab\n😀", max_size=30), st.data())
def test_every_change_of_a_text_fits(text: str, data: st.DataObject) -> None:
    sections, inserted = list[int](), list[list[str]]()
    for sign in text:
        units = 1 + (sign > "\uffff")
        is_kept = data.draw(st.booleans())
        put_in = "" if is_kept else data.draw(st.text("c\n😀", max_size=3))
        sections += [units, -1 if is_kept else len(put_in)]
        inserted.append(put_in.split("\n"))

    assert change_problem(sections, inserted, text, MAX_SIGNS) == ""
