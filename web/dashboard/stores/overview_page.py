"""The overview page: one row per store, a fixed number of stores per page."""

import asyncio
import time
from collections.abc import Sequence
from html import escape
from math import ceil

from nicegui import ui

from tally.errors import ViewsUnreachable
from web.dashboard.shared.addresses import overview_address, store_address
from web.dashboard.shared.frame import Frame, html, log_unreachable, show_frame
from web.dashboard.shared.period import Period
from web.dashboard.shared.source import FigureSource, StoreChoice, newest_day
from web.dashboard.stores.overview_markup import pending_row, store_row, table_head, unreachable_row

# A row costs a fifth of a second for 28 days, and three times that for 91 days.
STORES_A_PAGE = 25
# How long the page waits for its first rows; the others follow once a browser is connected.
FIRST_SECONDS = 1.0
REFRESH_SECONDS = 300.0


async def show_overview(
    source: FigureSource, stores: list[StoreChoice], period: Period, number: str
) -> None:
    """Draw the overview; `number` is the page number as the address has it, unchecked text."""
    page = _page_number(number, len(stores))
    first = StoreChoice(stores[0].store, newest_day(stores))
    show_frame(
        Frame(
            "overview",
            "All stores",
            period,
            lambda _, address_period: overview_address(address_period, page),
            first,
        )
    )
    shown = stores[(page - 1) * STORES_A_PAGE : page * STORES_A_PAGE]
    with ui.element("main").classes("t-body"):
        rows = OverviewRows(source, period)
        box = ui.element("section").classes("t-panel t-scroll")
        # The focus lets keyboard users scroll the table.
        with box.props('aria-label="Stores" tabindex="0"'):
            rows.draw(shown)
        html(_page_links(len(stores), page, period))
        # A timer starts only once a browser is connected, so a client that never connects costs no
        # more than this first fill.
        await rows.fill_first()
        ui.timer(0.1, rows.fill_rest, once=True)
        ui.timer(REFRESH_SECONDS, rows.fill_all, immediate=False)


class OverviewRows:
    """The rows of one page, filled one store after the other.

    Filling them all at once would be seconds of work before anything is shown.
    """

    def __init__(self, source: FigureSource, period: Period) -> None:
        self._source, self._period = source, period
        self._rows: dict[StoreChoice, ui.html] = {}
        self._waiting: list[StoreChoice] = []

    def draw(self, stores: Sequence[StoreChoice]) -> None:
        """Draw the table with rows that have no numbers yet."""
        with ui.element("table").classes("t-table t-stores").props('role="table"'):
            ui.html(table_head(), sanitize=False, tag="thead").props('role="rowgroup"')
            with ui.element("tbody").props('role="rowgroup"'):
                for choice in stores:
                    text = pending_row(choice, self._address(choice))
                    row = ui.html(text, sanitize=False, tag="tr").props('role="row"')
                    row.props["data-store"] = choice.store.store_id
                    self._rows[choice] = row
        self._waiting = [*stores]

    async def fill_first(self) -> None:
        """Fill as many rows as there is time for before the page is sent."""
        began = time.monotonic()
        while self._waiting and time.monotonic() - began < FIRST_SECONDS:
            await self._fill(self._waiting.pop(0))

    async def fill_rest(self) -> None:
        """Fill the rows that have no numbers yet."""
        while self._waiting and not ui.context.client.is_deleted:
            await self._fill(self._waiting.pop(0))

    async def fill_all(self) -> None:
        """Read every row again; unchanged rows are not sent again."""
        self._waiting = [*self._rows]
        await self.fill_rest()

    async def _fill(self, choice: StoreChoice) -> None:
        try:
            compared = await self._source.comparisons(choice.store, self._period)
            text = store_row(choice, self._address(choice), compared)
        except ViewsUnreachable as error:
            log_unreachable(error)
            text = unreachable_row(choice, self._address(choice))
        # NiceGUI does not send an unchanged text again.
        self._rows[choice].set_content(text)
        # Yield to the event loop, so that other requests are answered between two stores.
        await asyncio.sleep(0)

    def _address(self, choice: StoreChoice) -> str:
        return store_address(choice.store.store_id, self._period)


def _page_number(text: str, stores: int) -> int:
    """The page number in an address, limited to existing pages; 1 if the text is no number."""
    # The digits are limited to what any chain needs, because an address may hold anything.
    is_number = text.isascii() and text.isdigit() and len(text) < 7
    number = int(text) if is_number else 1
    return max(1, min(number, ceil(stores / STORES_A_PAGE)))


def _page_links(stores: int, page: int, period: Period) -> str:
    first, last = (page - 1) * STORES_A_PAGE + 1, min(page * STORES_A_PAGE, stores)
    text = f"<span>Stores {first:,} to {last:,} of {stores:,}</span>"
    links = [
        (page > 1, "prev", page - 1, "Previous stores"),
        (last < stores, "next", page + 1, "Next stores"),
    ]
    return (
        f"<nav class='t-links' aria-label='Pages of stores'>{text}"
        + "".join(
            f"<a rel='{rel}' href='{escape(overview_address(period, number))}'>{word}</a>"
            for is_there, rel, number, word in links
            if is_there
        )
        + "</nav>"
    )
