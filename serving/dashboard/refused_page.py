"""The page of what does not count: the newest dead letters by store and reason, and the days that a
conflict keeps open, each with what can be done."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from html import escape
from operator import attrgetter
from typing import NamedTuple

from nicegui import ui

from runtime.refused import RefusedEvents, refused_letters
from runtime.sources import FAMILIES
from serving.dashboard.addresses import refused_address
from serving.dashboard.frame import Frame, html, keep_current, say, show_frame
from serving.dashboard.period import Period
from serving.dashboard.source import StoreChoice
from serving.merge.letters import LetterReader
from serving.merge.views import Finding, ViewReader
from tally.errors import TallyError
from tally.tills import conflicts_text

REFRESH_SECONDS = 60.0
# So many rows of the table are shown; `tally refused` has all.
MOST_ROWS = 200
_DAYS = timedelta(days=31)
_HEAD = ("Store", "Why", "Events", "Last (UTC)", "The newest says", "What to do")


class KnownLetters(NamedTuple):
    """The newest dead letters by store and reason, the most frequent first.

    Not `is_read`: nobody can read them now, which is not nothing.
    """

    rows: Sequence[RefusedEvents]
    is_read: bool


@dataclass(frozen=True)
class RefusedSource:
    """Where the page reads."""

    views: ViewReader
    letters: LetterReader

    async def refused(self, store_id: str) -> KnownLetters:
        """The letters of a store, or of all where none is named."""
        try:
            letters = await self.letters.newest()
        # The page stays, says so, and looks again by itself.
        except TallyError:
            return KnownLetters((), is_read=False)
        found = refused_letters(one for one in letters if store_id in ("", one.key))
        # What there is most of is one cause: its fix helps most.
        rows = sorted(found, key=attrgetter("events"), reverse=True)
        return KnownLetters(rows, is_read=True)

    async def conflicts(self, chosen: StoreChoice) -> list[Finding]:
        """The open conflicts of a store's last month. Raises ViewsUnreachable."""
        if chosen.last_day is None:
            return []
        days = [chosen.last_day - timedelta(number) for number in range(_DAYS.days)]
        store_id = chosen.store.store_id
        found = [await self.views.findings(one, store_id, days) for one in FAMILIES.values()]
        return sorted(one for some in found for one in some)


async def show_refused(
    source: RefusedSource, stores: Sequence[StoreChoice], period: Period, store_id: str
) -> None:
    """The whole page, of all stores or of one."""
    chosen = next((one for one in stores if one.store.store_id == store_id), None)
    heading = f"Refused · {chosen.label}" if chosen else "Refused"
    first = chosen or stores[0]
    frame = Frame("refused", heading, period, lambda _, __: refused_address(), first)
    # It is of now, and of no period.
    show_frame(replace(frame, told="What does not count, why, and what to do"))
    with ui.element("main").classes("t-body"):
        if chosen is not None:
            load = partial(source.conflicts, chosen)
            await keep_current(load, partial(_show_conflicts, chosen), REFRESH_SECONDS)
        await keep_current(partial(source.refused, store_id), _show_letters, REFRESH_SECONDS)
        html(
            "<p class='t-foot'>All of it, and voids that wait for their receipt:"
            " <code>tally refused</code>. After the cause is mended:"
            " <code>tally dead-letters replay --reason …</code></p>"
        )


def _show_conflicts(chosen: StoreChoice, found: Sequence[Finding]) -> None:
    # The words are those of `tally conflicts` and of the answers.
    items = "".join(
        f"<li>{one.day}, till {escape(one.till_id)}:"
        f" {_with_code(conflicts_text(one.records, one.conflicts))}</li>"
        for one in found
    )
    with ui.element("section").classes("t-panel").props('aria-labelledby="conflicts"'):
        html(
            "<h2 id='conflicts'>Days that are not final because of conflicts</h2>"
            + (f"<ul class='t-problems'>{items}</ul>" if found else "<p class='t-sub'>None.</p>")
        )


def _show_letters(found: KnownLetters) -> None:
    if not found.is_read:
        say("Dead letters cannot be read now", "Kafka does not answer; the page looks again.")
        return
    with ui.element("section").classes("t-panel").props('aria-labelledby="letters"'):
        count = sum(one.events for one in found.rows)
        html(
            "<h2 id='letters'>Dead letters</h2><p class='t-sub' data-state='complete'>"
            f"{count:,}, the newest of each partition.</p>"
        )
        if not found.rows:
            return
        region = "class='t-scroll' role='region' aria-labelledby='letters' tabindex='0'"
        html(f"<div {region}>{_table(found.rows[:MOST_ROWS])}</div>")


def _table(found: Sequence[RefusedEvents]) -> str:
    head = "".join(f"<th scope='col' role='columnheader'>{one}</th>" for one in _HEAD)
    return (
        "<table class='t-table t-stores t-alerts t-refused' role='table'><thead role='rowgroup'>"
        f"<tr role='row'>{head}</tr></thead><tbody role='rowgroup'>"
        f"{''.join(map(_row, found))}</tbody></table>"
    )


def _with_code(text: str) -> str:
    """The text as markup: what stands between backticks is something to type."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


def _row(one: RefusedEvents) -> str:
    # Of what could not be read nobody knows the store.
    address = escape(refused_address(one.store))
    store = f"<a href='{address}'>{escape(one.store)}</a>" if one.store else "not known"
    cells = (
        escape(one.reason),
        f"{one.events:,}",
        escape(one.last[:16].replace("T", " ")),
        f"<span>{escape(one.message)}</span>",
        f"<span>{_with_code(one.fix)}</span>",
    )
    told = "".join(
        f"<td role='cell' data-label='{name}'>{cell}</td>"
        for name, cell in zip(_HEAD[1:], cells, strict=True)
    )
    return f"<tr role='row'><th scope='row' role='rowheader'>{store}</th>{told}</tr>"
