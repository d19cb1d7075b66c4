"""The parts shared by all pages: navigation, heading, store and period controls, live redrawing."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, TypeVar

import structlog
from markupsafe import Markup
from nicegui import ui

from tally.errors import UnknownName, ViewsUnreachable
from web.dashboard.shared import addresses, charts
from web.dashboard.shared.addresses import LENGTHS, RULES, Period, inbox_address, overview_address
from web.dashboard.shared.labels import span_text
from web.dashboard.shared.markup import element, link, span
from web.dashboard.shared.source import StoreChoice

log = structlog.get_logger()
STYLE = (Path(__file__).parent / "style.css").read_text("utf-8")
PageName = Literal["overview", "store", "report", "alerts", "rules", "refused"]
_Shown = TypeVar("_Shown")


@dataclass(frozen=True)
class Frame:
    """The top of a page: which page it is, its heading, the period and the choices.

    `address` returns the address of the same page for another store and period. Without `stores`
    there is no store to choose, and `chosen` only says which days are the newest. `days_clock`:
    whose clock the days follow, if not the store's. `description`: the text that replaces the days
    on a page that has no period.
    """

    page: PageName
    heading: str
    period: Period
    address: Callable[[str, Period], str]
    chosen: StoreChoice
    stores: Sequence[StoreChoice] = ()
    days_clock: str = ""
    description: str = ""

    @property
    def subtitle(self) -> str:
        """The line below the heading: `description`, or else the days and whose clock they have."""
        zone = self.chosen.store.tz if self.stores else "each store's own days"
        return self.description or f"{span_text(self.period)}, {self.days_clock or zone}"


def begin() -> None:
    """Add the style sheet and colours to a new page."""
    ui.add_css(STYLE)
    ui.colors(primary=charts.BATCH)


def show_frame(frame: Frame) -> None:
    """Draw the top of the page: navigation, heading, and the controls of store and period."""
    ui.page_title(f"{frame.heading} · Tally")
    with ui.element("header").classes("t-top"):
        html(_navigation(frame))
        title = element("h1", frame.heading) + element("p", frame.subtitle)
        html(element("div", title, class_="t-brand"))
        if frame.description:
            return
        with ui.element("div").classes("t-controls").props('role="group" aria-label="Period"'):
            if frame.stores:
                store_id = frame.chosen.store.store_id
                picker = store_picker(frame.stores, store_id)
                picker.on_value_change(
                    lambda event: _go(frame, event.value or store_id, frame.period)
                )
            _period_controls(frame)


def _navigation(frame: Frame) -> Markup:
    store_id = frame.chosen.store.store_id
    # A report belongs to a store, so the store link is the way back from a report.
    links = [
        ("overview", "Overview", overview_address(frame.period)),
        ("store", "Store", addresses.store_address(store_id, frame.period)),
        ("alerts", "Alerts", inbox_address(frame.period)),
        ("rules", "Rules", RULES),
        ("refused", "Refused", addresses.refusals_address()),
    ]
    items = (
        link(address, word, aria_current="page" if name == frame.page else None)
        for name, word, address in links
    )
    name = span("Tally", class_="t-name")
    return element("nav", name, *items, class_="t-nav", aria_label="Pages")


def store_picker(stores: Iterable[StoreChoice], store_id: str) -> ui.select:
    """A control to choose one of the stores."""
    options = {choice.store.store_id: choice.label for choice in stores}
    picker = ui.select(options, label="Store", value=store_id, with_input=True)
    return picker.props("dense outlined options-dense").classes("t-store")


def until_input(period: Period) -> ui.input:
    """A control to choose the last day of a period."""
    until = ui.input("Until", value=period.last.isoformat())
    return until.props("type=date dense outlined").classes("t-until")


def length_toggle(period: Period, label: str) -> ui.toggle:
    """A control to choose the length of a period."""
    length = ui.toggle({days: f"{days} days" for days in LENGTHS}, value=period.length)
    return length.props(f'no-caps unelevated aria-label="{label}"').classes("t-length")


def _period_controls(frame: Frame) -> None:
    store_id, period = frame.chosen.store.store_id, frame.period
    _step("chevron_left", "Earlier", lambda: _go(frame, store_id, period.shift(-1)))
    until = until_input(period)

    def choose() -> None:
        last, newest = str(until.value), frame.chosen.last_day
        _go(frame, store_id, addresses.parse_period(last, str(period.length), newest))

    until.on("change", choose)
    _step("chevron_right", "Later", lambda: _go(frame, store_id, period.shift(1)))
    length = length_toggle(period, "Length of the period")
    length.on_value_change(lambda event: _go(frame, store_id, Period(period.last, event.value)))


async def keep_current(
    load: Callable[[], Awaitable[_Shown]],
    draw: Callable[[_Shown], None],
    seconds: float,
) -> None:
    """Load and draw now and again at each interval, in seconds; redraw only what has changed."""
    box = ui.element("div").classes("t-body")
    shown: list[_Shown | None] = []

    async def refresh() -> None:
        try:
            loaded = await load()
        # The page stays and tries again by itself, so an outage needs no action by the reader.
        except ViewsUnreachable as error:
            loaded = None
            log_unreachable(error)
        # Unchanged content is not redrawn, so that a reader keeps scroll position and focus.
        if shown == [loaded]:
            return
        shown[:] = [loaded]
        box.clear()
        with box:
            say_unreachable() if loaded is None else draw(loaded)

    # The first draw happens before the page is sent, so that its numbers need no script.
    await refresh()
    ui.timer(seconds, refresh, immediate=False)


async def load_or_say(
    load: Awaitable[_Shown], frame: Frame, unknown: str, hint: str
) -> _Shown | None:
    """What was loaded; None if there is no such thing or no answer, and then the page says so."""
    try:
        return await load
    except UnknownName:
        show_not_found(frame, unknown, hint)
    except ViewsUnreachable as error:
        log_unreachable(error)
        show_frame(frame)
        with ui.element("main"):
            say_unreachable()
    return None


def show_not_found(
    frame: Frame,
    title: str,
    text: str,
    links: Markup | None = None,
) -> None:
    """Draw the page of a name that there is none of."""
    # A reader sees a normal page, and a program gets the status that the API gives for such a name.
    ui.context.client.status_code = HTTPStatus.NOT_FOUND
    show_frame(replace(frame, heading="Not found"))
    with ui.element("main").classes("t-body" if links else ""):
        say(title, text)
        if links:
            html(links)


def log_unreachable(error: ViewsUnreachable) -> None:
    """Log the error's cause, which names addresses and classes and is not for the page."""
    log.warning("dashboard: views unreachable", reason=str(error.__cause__ or error))


def say_unreachable() -> None:
    """Draw the message that replaces the numbers when the tables do not answer."""
    hint = "The tables behind this page do not answer; `tally status` shows what runs."
    say("The numbers cannot be read right now", hint, retry=True)


def say(title: str, text: str, retry: bool = False) -> None:
    """Draw a title and a text in place of numbers."""
    with ui.element("section").classes("t-state"):
        html(element("h2", title) + element("p", text))
        if retry:
            ui.button("Try again", on_click=ui.navigate.reload).props("no-caps unelevated")


def html(text: Markup) -> None:
    """Draw markup."""
    ui.html(str(text), sanitize=False).style("display: contents")


def replace_content(box: ui.element, text: Markup) -> None:
    """Draw markup in place of what is in the box."""
    box.clear()
    with box:
        html(text)


def panel(title_id: str = "", label: str = "") -> ui.element:
    """A panel of the page, named by the element of that id, or else by the label."""
    named = f'aria-labelledby="{title_id}"' if title_id else f'aria-label="{label}"'
    return ui.element("section").classes("t-panel").props(named)


def chart(
    options: charts.Options, label: str, size: str = "", mark_links: Sequence[str] = ()
) -> None:
    """Draw a chart with a label for screen readers; its marks lead to these addresses."""
    # A canvas has no text of its own, and a description generated by the library would replace
    # the label.
    labelled_options = {**options, "aria": {"enabled": True, "label": {"description": label}}}
    element = ui.echart(labelled_options).classes(f"t-chart {size}").props('role="img"')
    # Not set with props(), which parses a syntax of its own: the label holds arbitrary names.
    element.props["aria-label"] = label
    if mark_links:
        # Only the two fields that identify a mark are requested; a browser may send anything.
        names = ["componentType", "dataIndex"]
        element.on("componentClick", lambda event: _follow(event.args, mark_links), names)


def _follow(clicked: Any, links: Sequence[str]) -> None:
    number = clicked.get("dataIndex") if isinstance(clicked, dict) else None
    is_mark = number is not None and clicked.get("componentType") == "markPoint"
    if is_mark and type(number) is int and 0 <= number < len(links):
        ui.navigate.to(links[number])


def _step(icon: str, label: str, act: Callable[[], None]) -> None:
    button = ui.button(icon=icon, on_click=act)
    button.props(f'flat dense round aria-label="{label}"').tooltip(label)


def _go(frame: Frame, store_id: str, period: Period) -> None:
    ui.navigate.to(frame.address(store_id, period))
