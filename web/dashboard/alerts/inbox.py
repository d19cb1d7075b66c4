"""The alert inbox, which shows new alert messages at once, and the page of one alert.

The inbox holds the alerts read last from the tables, and the messages received since.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from nicegui import ui

from alerting.alert.current_state import current_states
from alerting.queries.alerts import (
    AlertFilter,
    AlertLife,
    AlertSearch,
    ListedAlert,
    newest_first,
    to_listed,
)
from alerting.stream.feed import Feed
from alerting.stream.listening import listen
from tally.alerts.message import Alert, decode_alert, decode_alert_or_none
from tally.errors import ViewsUnreachable
from tally.time.instants import UTC_CLOCK
from tally.time.windows import TimeRange
from web.dashboard.alerts.action_bar import AlertActionBar
from web.dashboard.alerts.markup import alert_table, choice_text, life_facts, life_table
from web.dashboard.shared.addresses import Period, inbox_address
from web.dashboard.shared.alert_labels import state_chip, title_text
from web.dashboard.shared.frame import (
    Frame,
    html,
    keep_current,
    load_or_say,
    log_unreachable,
    panel,
    say_unreachable,
    show_frame,
)
from web.dashboard.shared.markup import element, foot, link, note, scroll, subtitle
from web.dashboard.shared.source import FigureSource, PageSelection, StoreChoice

# Longer than the lag of a working projector ever is. Until then a received message is kept beside
# what the tables say.
MESSAGE_SECONDS = 120.0


class InboxRows(NamedTuple):
    """The open alerts, and the others raised in the period, each newest first."""

    open: list[ListedAlert]
    others: list[ListedAlert]


class Inbox:
    """The last state of each alert; duplicate or reordered messages lead to the same result."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        is_overdue: Callable[[Alert], bool] = lambda _: False,
    ) -> None:
        self._clock, self._is_overdue = clock, is_overdue
        self._alerts_by_id: dict[str, ListedAlert] = {}
        self._messages: list[tuple[float, Alert]] = []

    def load(self, alerts: Iterable[ListedAlert]) -> None:
        """Replace the table rows with the current ones, and forget messages that are too old."""
        self._alerts_by_id = {alert.alert_id: alert for alert in alerts}
        oldest = self._clock() - MESSAGE_SECONDS
        self._messages = [(at, message) for at, message in self._messages if at > oldest]

    def add_message(self, alert: Alert) -> None:
        """Add a message of the stream."""
        self._messages.append((self._clock(), alert))

    @property
    def rows(self) -> InboxRows:
        """The rows to show now."""
        messages = [message for _, message in self._messages]
        last = current_states([*self._alerts_by_id.values(), *messages])
        listed_alerts = (self._to_listed(alert, last) for alert in last.values())
        rows = sorted(listed_alerts, key=newest_first)
        open_alerts = [alert for alert in rows if alert.open]
        return InboxRows(open_alerts, [alert for alert in rows if not alert.open])

    def _to_listed(self, alert: Alert, last: dict[str, Alert]) -> ListedAlert:
        return to_listed(alert, self._is_open(alert, last), self._is_overdue(alert))

    def _is_open(self, alert: Alert, last: dict[str, Alert]) -> bool:
        if alert.edge != "raise" or alert.state == "retracted":
            return False
        # All known messages are searched, because an end may arrive before the tables have its
        # raise.
        ends = [end for end in last.values() if end.of == alert.alert_id]
        if any(end.state != "retracted" for end in ends):
            return False
        known = self._alerts_by_id.get(alert.alert_id)
        # An alert that had ended is open again only if its end was retracted.
        taken_back = any(message.of == alert.alert_id for _, message in self._messages)
        return known is None or known.open or taken_back


REFRESH_SECONDS = 30.0
# The rows shown in each of the two lists; the API returns all.
MAX_SHOWN = 200
# How soon a browser that has left is noticed, and how often a burst of messages is redrawn.
_POLL_SECONDS = 1.0
_DRAW_SECONDS = 0.5
_SECOND_READ_SECONDS = 5.0


async def show_inbox(
    source: FigureSource, feed: Feed | None, selection: PageSelection, store_id: str
) -> None:
    """Draw the inbox page, for one store or, for an empty id, for all."""
    chosen, period = selection.chosen, selection.period
    heading = f"Alerts · {chosen.label}" if store_id else "Alerts"
    show_frame(_frame(heading, period, chosen, store_id))
    with ui.element("main").classes("t-body"):
        if store_id:
            html(foot(link(inbox_address(period), "All stores")))
        inbox = Inbox(is_overdue=source.alerts.is_overdue)
        live = LiveInbox(source, selection.by_id, period, store_id, inbox)
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
        async for event in listen(feed, place, self._matches_store, _POLL_SECONDS):
            if client.is_deleted:
                return
            if event.lost_position is not None:
                await self.refresh()
            if event.message is not None:
                self.inbox.add_message(decode_alert(event.message))
                self._has_news = True
            # The rest of a burst is drawn when the position that follows it arrives.
            is_burst = time.monotonic() - self._last_drawn_at < _DRAW_SECONDS
            if self._has_news and (event.message is None or not is_burst):
                self._draw(self.inbox.rows)

    async def _load_alerts(self) -> list[ListedAlert]:
        store_ids = [self.store_id] if self.store_id else [*self.stores]
        span = TimeRange(*self.period.span(UTC_CLOCK))
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
        count = element("strong", f"{len(rows.open):,} open")
        html(foot(count, f" · {live}", role="status"))
        self._list("open", "Open", rows.open, "Nothing is open.")
        self._list("others", "Ended or taken back", rows.others, "Nothing else in these days.")

    def _list(
        self,
        name: str,
        title: str,
        alerts: Sequence[ListedAlert],
        none: str,
    ) -> None:
        with panel(name):
            html(element("h2", title, id=name))
            if not alerts:
                html(subtitle(none))
                return
            html(scroll(alert_table(alerts[:MAX_SHOWN], self.stores), aria_labelledby=name))
            if len(alerts) >= MAX_SHOWN:
                html(note(f"The newest {MAX_SHOWN}; /v1/alerts has all."))


async def show_alert(source: FigureSource, selection: PageSelection, alert_id: str) -> None:
    """Draw the page of one alert; for an unknown id the page says that there is none."""
    frame = _frame("Alert", selection.period, selection.stores[0])
    frame = replace(frame, description="One alert, by the clock of its store")
    load = partial(source.alerts.read_life, alert_id)
    hint = "The inbox has those that there are."
    life = await load_or_say(load(), frame, f"There is no alert {alert_id[:64]}", hint)
    if life is None:
        return
    alert, choice = life.last, selection.by_id.get(life.last.store_id)
    show_frame(replace(frame, heading=title_text(alert)))
    with ui.element("main").classes("t-body"):
        await keep_current(load, partial(_show_life, choice=choice), REFRESH_SECONDS)
        if alert.open:
            AlertActionBar(source.actions, {alert.alert_id: choice_text(alert, choice)}).show()


def _frame(heading: str, period: Period, chosen: StoreChoice, store_id: str = "") -> Frame:
    def address(_: str, address_period: Period) -> str:
        return inbox_address(address_period, store_id)

    return Frame("alerts", heading, period, address, chosen, days_clock="UTC days")


def _show_life(life: AlertLife, choice: StoreChoice | None) -> None:
    with panel(label="What it is"):
        is_open = str(life.last.open).lower()
        standing = element("strong", "Open" if life.last.open else "Not open", data_open=is_open)
        line = element("div", state_chip(life.last.state), standing, class_="t-line")
        html(line + life_facts(life, choice))
    with panel(label="Published states"):
        states = life_table([*life.states, *life.ends], choice)
        html(
            element("h2", "Published states, and what they were judged by", id="life")
            + scroll(states, aria_labelledby="life")
        )
