"""The overview page: one row per store, whose cells are stacked on a phone."""

import asyncio
import time
from collections.abc import Sequence
from math import ceil

from markupsafe import Markup
from nicegui import ui

from serving.questions import catalogue
from serving.reports.comparison import ComparedValue, WithheldValue
from tally.errors import ViewsUnreachable
from web.dashboard.shared import markup
from web.dashboard.shared.addresses import Period, overview_address, store_address
from web.dashboard.shared.frame import Frame, html, log_unreachable, show_frame
from web.dashboard.shared.labels import NOTHING, TITLES, UnitStyle, percent_text
from web.dashboard.shared.markup import Content, chip, element, join, link, second_line, span
from web.dashboard.shared.source import (
    COMPARED_METRICS,
    FigureSource,
    PageSelection,
    StoreChoice,
    newest_day,
)
from web.dashboard.stores.report_figures import STATES, NumberState, combine_states, number_state
from web.dashboard.stores.report_markup import data_attributes, machine_values, report_chip

# A row costs a fifth of a second for 28 days, and three times that for 91 days.
STORES_A_PAGE = 25
# How long the page waits for its first rows; the others follow once a browser is connected.
FIRST_SECONDS = 1.0
REFRESH_SECONDS = 300.0
_STATE = "State"


async def show_overview(source: FigureSource, selection: PageSelection, number: str) -> None:
    """Draw the overview; `number` is the page number as the address has it, unchecked text."""
    stores, period = selection.stores, selection.period
    page = _page_number(number, len(stores))
    first = StoreChoice(stores[0].store, newest_day(stores))
    show_frame(
        Frame("overview", "All stores", period, lambda _, to: overview_address(to, page), first)
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
    """The rows of one page, filled one by one: all at once would be seconds before any is shown."""

    def __init__(self, source: FigureSource, period: Period) -> None:
        self._source, self._period = source, period
        self._rows: dict[StoreChoice, ui.html] = {}
        self._waiting: list[StoreChoice] = []

    def draw(self, stores: Sequence[StoreChoice]) -> None:
        """Draw the table with rows that have no numbers yet."""
        with ui.element("table").classes("t-table t-stores").props('role="table"'):
            head = str(markup.card_head(["Store", *_titles(), _STATE], "t-num"))
            ui.html(head, sanitize=False, tag="thead").props('role="rowgroup"')
            with ui.element("tbody").props('role="rowgroup"'):
                for choice in stores:
                    text = self._name(choice) + empty_cells(chip("…", "Being read"), "…")
                    row = ui.html(str(text), sanitize=False, tag="tr").props('role="row"')
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
            cells = number_cells(compared, choice.store.currency)
        except ViewsUnreachable as error:
            log_unreachable(error)
            cells = empty_cells(chip("⊘", "Cannot be read", "withheld"), NOTHING)
        # NiceGUI does not send an unchanged text again.
        self._rows[choice].set_content(str(self._name(choice) + cells))
        # Yield to the event loop, so that other requests are answered between two stores.
        await asyncio.sleep(0)

    def _name(self, choice: StoreChoice) -> Markup:
        address = store_address(choice.store.store_id, self._period)
        return markup.card_name(link(address, choice.label))


def number_cells(found: Sequence[ComparedValue | WithheldValue], currency: str) -> Markup:
    """The cells of a store: each value with its change, and the overall state."""
    named = zip(_titles(), COMPARED_METRICS, found, strict=True)
    cells = (_number_cell(*name_and_value, currency) for name_and_value in named)
    states = [number_state(compared) for compared in found]
    numbers = sum(state not in ("unknown", "withheld") for state in states)
    # The note is shown only if some numbers are known and some are not.
    note = f"{numbers} of {len(states)} numbers" if 0 < numbers < len(states) else ""
    state = _cell(_STATE, report_chip(combine_states(states)), second_line(note))
    return join([*cells, state])


def empty_cells(state: Markup, text: str) -> Markup:
    """The cells of a store without numbers, and why it has none."""
    # The row is as high as one with numbers, so that the rows below do not jump when they arrive.
    cells = (_cell(title, text, second_line("\N{NO-BREAK SPACE}")) for title in _titles())
    return join([*cells, _cell(_STATE, state)])


def _titles() -> list[str]:
    return [TITLES.get(metric, catalogue.metric(metric).entry.name) for metric in COMPARED_METRICS]


def _number_cell(
    title: str, metric: str, found: ComparedValue | WithheldValue, currency: str
) -> Markup:
    state = number_state(found)
    named = {"data_metric": metric, "data_state": state}
    if isinstance(found, WithheldValue):
        number = span(_mark(state), NOTHING)
        return _cell(title, number, second_line(NOTHING), **named, title=found.reason)
    style = UnitStyle(found.unit, found.currency or currency)
    # The other units are given by the column heads.
    is_money = found.unit == "minor" and found.value is not None
    unit = join([" ", span(style.word, class_="t-unit")]) if is_money else ""
    change = NOTHING if found.change_percent is None else percent_text(found.change_percent)
    number = span(_mark(state), style.text(found.value), unit)
    values = data_attributes(machine_values(found))
    return _cell(title, number, second_line(change), **named, **values)


def _mark(state: NumberState) -> Content:
    # A final number needs no sign, because that would repeat in every cell.
    if state == "complete":
        return ""
    sign, word = STATES[state]
    mark = span(sign, class_=f"t-mark t-{state}", title=word, role="img", aria_label=word)
    return join([mark, " "])


def _cell(name: str, *content: Content, **attributes: markup.Attribute) -> Markup:
    # The label is shown beside the number where the head is hidden.
    return element("td", *content, role="cell", class_="t-num", data_label=name, **attributes)


def _page_number(text: str, stores: int) -> int:
    """The page number in an address, limited to existing pages; 1 if the text is no number."""
    # The digits are limited to what any chain needs, because an address may hold anything.
    is_number = text.isascii() and text.isdigit() and len(text) < 7
    number = int(text) if is_number else 1
    return max(1, min(number, ceil(stores / STORES_A_PAGE)))


def _page_links(stores: int, page: int, period: Period) -> Markup:
    first, last = (page - 1) * STORES_A_PAGE + 1, min(page * STORES_A_PAGE, stores)
    links = [span(f"Stores {first:,} to {last:,} of {stores:,}")]
    if page > 1:
        links.append(link(overview_address(period, page - 1), "Previous stores", rel="prev"))
    if last < stores:
        links.append(link(overview_address(period, page + 1), "Next stores", rel="next"))
    return element("nav", *links, class_="t-links", aria_label="Pages of stores")
