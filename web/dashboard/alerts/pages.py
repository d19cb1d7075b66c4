"""The alert inbox, which shows new alert messages at once, and the page of one alert."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from http import HTTPStatus

from nicegui import ui

from alerting.queries.alerts import AlertFilter, AlertLife, AlertSearch, AlertSpan, ListedAlert
from alerting.stream.feed import Feed
from alerting.stream.listening import listen
from tally.alerts.message import decode_alert, decode_alert_or_none
from tally.errors import UnknownName, ViewsUnreachable
from tally.time.instants import UTC_CLOCK
from web.dashboard.alerts.action_bar import AlertActionBar
from web.dashboard.alerts.inbox import Inbox, InboxRows
from web.dashboard.alerts.markup import alert_table, choice_text, life_facts, life_table
from web.dashboard.shared.addresses import inbox_address
from web.dashboard.shared.alert_labels import state_chip, title_text
from web.dashboard.shared.frame import (
    Frame,
    html,
    keep_current,
    log_unreachable,
    say,
    say_unreachable,
    show_frame,
)
from web.dashboard.shared.period import Period
from web.dashboard.shared.source import FigureSource, StoreChoice

REFRESH_SECONDS = 30.0
# The rows shown in each of the two lists; the API returns all.
MAX_SHOWN = 200
# How soon a browser that has left is noticed, and how often a burst of messages is redrawn.
_POLL_SECONDS = 1.0
_DRAW_SECONDS = 0.5
_SECOND_READ_SECONDS = 5.0


async def show_inbox(
    source: FigureSource,
    feed: Feed | None,
    stores: Sequence[StoreChoice],
    period: Period,
    store_id: str,
) -> None:
    """Draw the inbox page, for all stores or for one."""
    chosen = next((choice for choice in stores if choice.store.store_id == store_id), None)
    heading = f"Alerts · {chosen.label}" if chosen else "Alerts"
    show_frame(_frame(heading, period, chosen or stores[0], store_id))
    with ui.element("main").classes("t-body"):
        if chosen:
            html(f"<p class='t-foot'><a href='{escape(inbox_address(period))}'>All stores</a></p>")
        inbox = Inbox(is_overdue=source.alerts.is_overdue)
        choices = {choice.store.store_id: choice for choice in stores}
        live = LiveInbox(source, choices, period, store_id, inbox)
        await live.show()
        ui.timer(REFRESH_SECONDS, live.refresh, immediate=False)
        if feed is not None:
            ui.timer(0.1, partial(live.follow, feed), once=True)
            # An alert sent just before the stream began may reach the tables only after the first
            # read, so they are read once more.
            ui.timer(_SECOND_READ_SECONDS, live.refresh, once=True)


@dataclass
class LiveInbox:
    """The lists of the inbox, redrawn when something has changed."""

    source: FigureSource
    stores: Mapping[str, StoreChoice]
    period: Period
    store_id: str
    inbox: Inbox
    is_live: bool = False

    async def show(self) -> None:
        """Draw the lists from the tables, so that the page is sent with them."""
        self._box = ui.element("div").classes("t-body")
        self._bar = AlertActionBar(self.source.actions, {})
        self._bar.show()
        self._last_drawn: tuple[InboxRows | None, bool] | None = None
        self._last_drawn_at, self._has_news = 0.0, False
        await self.refresh()

    async def refresh(self) -> None:
        """Read the tables again and redraw the lists."""
        try:
            self.inbox.load(await self._load_alerts())
        # The page stays open and tries again by itself.
        except ViewsUnreachable as error:
            log_unreachable(error)
            self._draw(None)
            return
        self._draw(self.inbox.rows)

    async def follow(self, feed: Feed) -> None:
        """Draw the messages of the stream, for as long as a browser is connected."""
        client = ui.context.client
        try:
            place = await feed.current_position()
        except ViewsUnreachable as error:
            log_unreachable(error)
            return
        self.is_live = True
        # This includes alerts sent between the first read of the tables and this stream position.
        await self.refresh()
        async for heard in listen(feed, place, self._matches_store, _POLL_SECONDS):
            if client.is_deleted:
                return
            if heard.lost_position is not None:
                await self.refresh()
            if heard.message is not None:
                self.inbox.add_message(decode_alert(heard.message))
                self._has_news = True
            # The rest of a burst is drawn when the position that follows it arrives.
            is_burst = time.monotonic() - self._last_drawn_at < _DRAW_SECONDS
            if self._has_news and (heard.message is None or not is_burst):
                self._draw(self.inbox.rows)

    async def _load_alerts(self) -> list[ListedAlert]:
        store_ids = [self.store_id] if self.store_id else [*self.stores]
        span = AlertSpan(*self.period.span(UTC_CLOCK))
        question = AlertSearch(store_ids, AlertFilter(), span)
        page = await self.source.alerts.read_page(question, None, MAX_SHOWN)
        # An open alert is shown no matter how long ago it was raised.
        open_alerts = await self.source.alerts.read_open(AlertSearch(store_ids, AlertFilter()))
        return [*page.alerts, *open_alerts]

    def _matches_store(self, message: bytes) -> bool:
        alert = decode_alert_or_none(message)
        return alert is not None and self.store_id in ("", alert.store_id)

    def _draw(self, rows: InboxRows | None) -> None:
        self._has_news = False
        if self._last_drawn == (rows, self.is_live):
            return
        self._last_drawn, self._last_drawn_at = (rows, self.is_live), time.monotonic()
        self._box.clear()
        with self._box:
            say_unreachable() if rows is None else self._lists(rows)
        if rows is not None:
            shown = rows.open[:MAX_SHOWN]
            self._bar.offer({alert.alert_id: self._label(alert) for alert in shown})

    def _label(self, alert: ListedAlert) -> str:
        return choice_text(alert, self.stores.get(alert.store_id))

    def _lists(self, rows: InboxRows) -> None:
        live = "Live: new alerts show at once" if self.is_live else "Renewed every half minute"
        count = f"{len(rows.open):,} open"
        html(f"<p class='t-foot' role='status'><strong>{count}</strong> · {live}</p>")
        self._list("open", "Open", rows.open, "Nothing is open.")
        self._list("others", "Ended or taken back", rows.others, "Nothing else in these days.")

    def _list(
        self,
        name: str,
        title: str,
        alerts: Sequence[ListedAlert],
        none: str,
    ) -> None:
        with ui.element("section").classes("t-panel").props(f'aria-labelledby="{name}"'):
            html(f"<h2 id='{name}'>{title}</h2>")
            if not alerts:
                html(f"<p class='t-sub'>{none}</p>")
                return
            shown = alert_table(alerts[:MAX_SHOWN], self.stores)
            region = f"class='t-scroll' role='region' aria-labelledby='{name}' tabindex='0'"
            html(f"<div {region}>{shown}</div>")
            if len(alerts) >= MAX_SHOWN:
                html(f"<p class='t-known'>The newest {MAX_SHOWN}; /v1/alerts has all.</p>")


async def show_alert(
    source: FigureSource, stores: Sequence[StoreChoice], period: Period, alert_id: str
) -> None:
    """Draw the page of one alert; for an unknown id the page says that there is none."""
    choices = {choice.store.store_id: choice for choice in stores}
    try:
        life = await source.alerts.read_life(alert_id)
    except UnknownName:
        ui.context.client.status_code = HTTPStatus.NOT_FOUND
        show_frame(_alert_frame("Not found", period, stores[0]))
        with ui.element("main"):
            say(f"There is no alert {alert_id[:64]}", "The inbox has those that there are.")
        return
    except ViewsUnreachable as error:
        log_unreachable(error)
        show_frame(_alert_frame("Alert", period, stores[0]))
        with ui.element("main"):
            say_unreachable()
        return
    show_frame(_alert_frame(title_text(life.last), period, stores[0]))
    with ui.element("main").classes("t-body"):
        draw = partial(_show_life, choice=choices.get(life.last.store_id))
        await keep_current(partial(source.alerts.read_life, alert_id), draw, REFRESH_SECONDS)
        if life.last.open:
            label = choice_text(life.last, choices.get(life.last.store_id))
            AlertActionBar(source.actions, {life.last.alert_id: label}).show()


def _frame(heading: str, period: Period, chosen: StoreChoice, store_id: str = "") -> Frame:
    def address(_: str, address_period: Period) -> str:
        return inbox_address(address_period, store_id)

    return Frame("alerts", heading, period, address, chosen, days_clock="UTC days")


def _alert_frame(heading: str, period: Period, chosen: StoreChoice) -> Frame:
    return replace(
        _frame(heading, period, chosen), description="One alert, by the clock of its store"
    )


def _show_life(life: AlertLife, choice: StoreChoice | None) -> None:
    with ui.element("section").classes("t-panel").props('aria-label="What it is"'):
        standing = "Open" if life.last.open else "Not open"
        html(
            f"<div class='t-line'>{state_chip(life.last.state)}"
            f"<strong data-open='{str(life.last.open).lower()}'>{standing}</strong></div>"
            f"{life_facts(life, choice)}"
        )
    with ui.element("section").classes("t-panel").props('aria-label="Published states"'):
        html(
            "<h2 id='life'>Published states, and what they were judged by</h2>"
            "<div class='t-scroll' role='region' aria-labelledby='life' tabindex='0'>"
            f"{life_table([*life.states, *life.ends], choice)}</div>"
        )
