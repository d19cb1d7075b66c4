"""The page of refused events (the newest dead letters, with fixes), and of conflicts' days."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from markupsafe import Markup
from nicegui import ui

from runtime.records.dead_letter import RefusedEvents, group_letters
from runtime.registry.sources import FAMILIES
from serving.storage.dead_letters import LetterReader
from serving.storage.tables import TillFinding
from serving.storage.views import ViewReader
from tally.errors import TallyError
from tally.events.identity import describe_conflicts
from web.dashboard.shared import markup
from web.dashboard.shared.addresses import refusals_address
from web.dashboard.shared.frame import Frame, html, keep_current, panel, say, show_frame
from web.dashboard.shared.markup import Content, card_row, card_table, element, foot, span, subtitle
from web.dashboard.shared.source import PageSelection, StoreChoice

REFRESH_SECONDS = 60.0
# The number of table rows shown; `tally refused` lists all.
MAX_ROWS = 200
_COMMANDS = (
    "All of it, and voids that wait for their receipt: `tally refused`. After the cause is mended:"
    " `tally dead-letters replay --reason …`"
)
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
        days = [chosen.last_day - timedelta(number) for number in range(31)]
        store_id = chosen.store.store_id
        found = [await self.views.findings(family, store_id, days) for family in FAMILIES.values()]
        return sorted(chain.from_iterable(found))


async def show_refused(source: RefusedSource, selection: PageSelection, store_id: str) -> None:
    """Draw the whole page, for one store or, for an empty id, for all."""
    chosen = selection.chosen
    heading = f"Refused · {chosen.label}" if store_id else "Refused"
    frame = Frame("refused", heading, selection.period, lambda _, __: refusals_address(), chosen)
    # The page shows the present and has no period.
    show_frame(replace(frame, description="What does not count, why, and what to do"))
    with ui.element("main").classes("t-body"):
        if store_id:
            await keep_current(partial(source.conflicts, chosen), _show_conflicts, REFRESH_SECONDS)
        await keep_current(partial(source.dead_letters, store_id), _show_letters, REFRESH_SECONDS)
        html(foot(_with_code(_COMMANDS)))


def _show_conflicts(findings: Sequence[TillFinding]) -> None:
    # The wording is the same as in `tally conflicts` and in the API's answers.
    items = []
    for finding in findings:
        conflicts = _with_code(describe_conflicts(finding.records, finding.conflicts))
        items.append(element("li", f"{finding.day}, till {finding.till_id}: ", conflicts))
    with panel("conflicts"):
        html(element("h2", "Days that are not final because of conflicts", id="conflicts"))
        html(element("ul", *items, class_="t-problems") if items else subtitle("None."))


def _show_letters(letters: DeadLetterGroups) -> None:
    if not letters.is_read:
        say("Dead letters cannot be read now", "Kafka does not answer; the page looks again.")
        return
    with panel("letters"):
        count = f"{sum(row.events for row in letters.rows):,}"
        html(
            element("h2", "Dead letters", id="letters")
            + subtitle(f"{count}, the newest of each partition.", data_state="complete")
        )
        if letters.rows:
            shown = card_table(_HEAD, map(_row, letters.rows[:MAX_ROWS]), "t-refused")
            html(markup.scroll(shown, aria_labelledby="letters"))


def _with_code(text: str) -> Markup:
    """The text as markup, with what is between backticks as code, because it is to be typed."""
    parts: list[Content] = [*text.split("`")]
    for place in range(1, len(parts), 2):
        parts[place] = element("code", parts[place])
    return markup.join(parts)


def _row(refused: RefusedEvents) -> Markup:
    cells = (
        refused.reason,
        f"{refused.events:,}",
        refused.last[:16].replace("T", " "),
        span(refused.message),
        span(_with_code(refused.fix)),
    )
    # The store of an event that could not be read is not known.
    store = (
        markup.link(refusals_address(refused.store), refused.store)
        if refused.store
        else "not known"
    )
    return card_row(store, dict(zip(_HEAD[1:], cells, strict=True)))
