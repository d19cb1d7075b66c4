"""The page of refused events, each cause with what can be done about it.

It shows the newest dead letters by store and reason, and the days that a conflict keeps open.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from html import escape
from operator import attrgetter
from typing import NamedTuple

from nicegui import ui

from runtime.records.refused import RefusedEvents, group_letters
from runtime.registry.sources import FAMILIES
from serving.storage.dead_letters import LetterReader
from serving.storage.rows import TillFinding
from serving.storage.views import ViewReader
from tally.errors import TallyError
from tally.events.tills import describe_conflicts
from web.dashboard.shared.addresses import refusals_address
from web.dashboard.shared.frame import Frame, html, keep_current, say, show_frame
from web.dashboard.shared.period import Period
from web.dashboard.shared.source import StoreChoice

REFRESH_SECONDS = 60.0
# The number of table rows shown; `tally refused` lists all.
MAX_ROWS = 200
_DAYS = timedelta(days=31)
_HEAD = ("Store", "Why", "Events", "Last (UTC)", "The newest says", "What to do")


class DeadLetterGroups(NamedTuple):
    """The newest dead letters by store and reason, the most frequent first.

    If `is_read` is false, they cannot be read now, which does not mean that there are none.
    """

    rows: Sequence[RefusedEvents]
    is_read: bool


@dataclass(frozen=True)
class RefusedSource:
    """The views and the dead letters that the page reads."""

    views: ViewReader
    letters: LetterReader

    async def dead_letters(self, store_id: str) -> DeadLetterGroups:
        """The dead letters of a store, or of all stores for an empty id."""
        try:
            letters = await self.letters.newest()
        # The page stays, shows this state, and tries again by itself.
        except TallyError:
            return DeadLetterGroups((), is_read=False)
        groups = group_letters(letter for letter in letters if store_id in ("", letter.key))
        # Each row is one cause, so fixing the most frequent one helps most.
        rows = sorted(groups, key=attrgetter("events"), reverse=True)
        return DeadLetterGroups(rows, is_read=True)

    async def conflicts(self, chosen: StoreChoice) -> list[TillFinding]:
        """The open conflicts of a store's last month. Raises ViewsUnreachable."""
        if chosen.last_day is None:
            return []
        days = [chosen.last_day - timedelta(number) for number in range(_DAYS.days)]
        store_id = chosen.store.store_id
        found = [await self.views.findings(family, store_id, days) for family in FAMILIES.values()]
        return sorted(finding for family_findings in found for finding in family_findings)


async def show_refused(
    source: RefusedSource, stores: Sequence[StoreChoice], period: Period, store_id: str
) -> None:
    """Draw the whole page, for all stores or for one."""
    chosen = next((choice for choice in stores if choice.store.store_id == store_id), None)
    heading = f"Refused · {chosen.label}" if chosen else "Refused"
    first = chosen or stores[0]
    frame = Frame("refused", heading, period, lambda _, __: refusals_address(), first)
    # The page shows the present and has no period.
    show_frame(replace(frame, description="What does not count, why, and what to do"))
    with ui.element("main").classes("t-body"):
        if chosen is not None:
            load = partial(source.conflicts, chosen)
            await keep_current(load, partial(_show_conflicts, chosen), REFRESH_SECONDS)
        await keep_current(partial(source.dead_letters, store_id), _show_letters, REFRESH_SECONDS)
        html(
            "<p class='t-foot'>All of it, and voids that wait for their receipt:"
            " <code>tally refused</code>. After the cause is mended:"
            " <code>tally dead-letters replay --reason …</code></p>"
        )


def _show_conflicts(chosen: StoreChoice, findings: Sequence[TillFinding]) -> None:
    # The wording is the same as in `tally conflicts` and in the API's answers.
    items = "".join(
        f"<li>{finding.day}, till {escape(finding.till_id)}:"
        f" {_with_code(describe_conflicts(finding.records, finding.conflicts))}</li>"
        for finding in findings
    )
    with ui.element("section").classes("t-panel").props('aria-labelledby="conflicts"'):
        html(
            "<h2 id='conflicts'>Days that are not final because of conflicts</h2>"
            + (f"<ul class='t-problems'>{items}</ul>" if findings else "<p class='t-sub'>None.</p>")
        )


def _show_letters(letters: DeadLetterGroups) -> None:
    if not letters.is_read:
        say("Dead letters cannot be read now", "Kafka does not answer; the page looks again.")
        return
    with ui.element("section").classes("t-panel").props('aria-labelledby="letters"'):
        count = sum(row.events for row in letters.rows)
        html(
            "<h2 id='letters'>Dead letters</h2><p class='t-sub' data-state='complete'>"
            f"{count:,}, the newest of each partition.</p>"
        )
        if not letters.rows:
            return
        region = "class='t-scroll' role='region' aria-labelledby='letters' tabindex='0'"
        html(f"<div {region}>{_table(letters.rows[:MAX_ROWS])}</div>")


def _table(rows: Sequence[RefusedEvents]) -> str:
    head = "".join(f"<th scope='col' role='columnheader'>{name}</th>" for name in _HEAD)
    return (
        "<table class='t-table t-stores t-alerts t-refused' role='table'><thead role='rowgroup'>"
        f"<tr role='row'>{head}</tr></thead><tbody role='rowgroup'>"
        f"{''.join(map(_row, rows))}</tbody></table>"
    )


def _with_code(text: str) -> str:
    """The text as markup, with what is between backticks as code, because it is to be typed."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


def _row(refused: RefusedEvents) -> str:
    # The store of an event that could not be read is not known.
    address = escape(refusals_address(refused.store))
    store = f"<a href='{address}'>{escape(refused.store)}</a>" if refused.store else "not known"
    cells = (
        escape(refused.reason),
        f"{refused.events:,}",
        escape(refused.last[:16].replace("T", " ")),
        f"<span>{escape(refused.message)}</span>",
        f"<span>{_with_code(refused.fix)}</span>",
    )
    cell_markup = "".join(
        f"<td role='cell' data-label='{name}'>{cell}</td>"
        for name, cell in zip(_HEAD[1:], cells, strict=True)
    )
    return f"<tr role='row'><th scope='row' role='rowheader'>{store}</th>{cell_markup}</tr>"
