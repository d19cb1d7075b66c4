"""The alert inbox, which shows new messages at once, the page of one alert, and actions on alerts.

The inbox holds the alerts read last from the tables, and the messages received since.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from markupsafe import Markup
from nicegui import ui

from alerting.alert.current_state import current_states
from alerting.alert.resolution import MAX_NAME, MAX_REASON
from alerting.queries.alerts import (
    ActionRecord,
    AlertActions,
    AlertFilter,
    AlertLife,
    AlertSearch,
    ListedAlert,
    newest_first,
    to_listed,
)
from alerting.stream.feed import Feed, listen
from tally.alerts.message import Alert, decode_alert, decode_alert_or_none
from tally.errors import AlertNotOpen, Busy, EditsRefused, UnknownName, ViewsUnreachable
from tally.time.instants import UTC_CLOCK
from tally.time.windows import TimeRange
from web.dashboard.alerts import markup
from web.dashboard.alerts.markup import alert_table, choice_text, life_facts, life_table, state_chip
from web.dashboard.shared import frame
from web.dashboard.shared.addresses import Period, inbox_address
from web.dashboard.shared.frame import Frame, html, keep_current, log_unreachable, panel, show_frame
from web.dashboard.shared.markup import element, failure_text, foot, link, note, scroll, subtitle
from web.dashboard.shared.source import FigureSource, PageSelection, StoreChoice

# The length of a silence in minutes, and its label.
SILENCES = {60: "1 hour", 480: "8 hours", 1_440: "1 day"}
_CLOSED = Markup(
    "Acting on alerts from here is switched off (TALLY_RULE_EDITS): use"
    " <code>tally alerts ack</code>, <code>snooze</code> or <code>resolve</code>."
)
# Writes an action on the alert of an id.
AlertAction = Callable[[str], Awaitable[ActionRecord]]


@dataclass
class AlertActionBar:
    """The panel of actions; `alerts`: the label of each alert that can be chosen, by alert id."""

    actions: AlertActions
    alerts: Mapping[str, str]
    _is_busy: bool = field(default=False, init=False)

    def show(self) -> None:
        """Draw the panel; if the settings refuse actions, it names the commands to use instead."""
        with panel("act"):
            html(element("h2", "Acknowledge, silence or resolve", id="act"))
            if not self.actions.is_allowed:
                html(note(_CLOSED, data_closed="true"))
                return
            with ui.element("div").classes("t-controls"):
                self._controls()
            self._outcome = ui.element("div").props('role="status"')
        self._dialog = self._reason_dialog()

    def offer(self, alerts: Mapping[str, str]) -> None:
        """Replace the alerts that can be chosen; the current choice stays if it is among them."""
        if alerts == self.alerts or not self.actions.is_allowed:
            return
        self.alerts = alerts
        # The list may be refreshed while a user is choosing.
        is_there = self._alert.value in alerts
        chosen = self._alert.value if is_there else next(iter(alerts), None)
        self._alert.set_options(dict(alerts), value=chosen)

    def _controls(self) -> None:
        first = next(iter(self.alerts), None)
        self._alert = ui.select(dict(self.alerts), label="Open alert", value=first)
        self._alert.mark("alert").props("dense outlined options-dense").classes("t-store")
        self._by = ui.input("Your name").props(f"dense outlined maxlength={MAX_NAME}")
        ui.button("Acknowledge", on_click=self._acknowledge).props("no-caps unelevated")
        self._minutes = ui.select(SILENCES, label="For", value=60)
        self._minutes.props("dense outlined options-dense")
        ui.button("Silence", on_click=self._silence).props("no-caps outline")
        ui.button("Resolve", on_click=lambda: self._dialog.open()).props("no-caps outline")

    def _reason_dialog(self) -> ui.dialog:
        with ui.dialog() as dialog, ui.card():
            ui.label("Why does it need no further attention?")
            self._because = ui.textarea("Reason").props(f"outlined maxlength={MAX_REASON}")
            self._missing = ui.element("div").props('role="alert"')
            with ui.element("div").classes("t-controls"):
                ui.button("Cancel", on_click=dialog.close).props("no-caps flat")
                ui.button("Resolve it", on_click=self._resolve).props("no-caps unelevated")
        return dialog

    async def _acknowledge(self) -> None:
        by = self._name()
        if not by:
            self._say(failure_text("Write your name first: others see who has taken it on."))
            return
        await self._act(lambda alert: self.actions.acknowledge(alert, by), f"Acknowledged by {by}")

    async def _silence(self) -> None:
        # A browser may send any value, so only the offered ones are accepted.
        minutes = self._minutes.value if self._minutes.value in SILENCES else 60
        by, done = self._name(), f"Silenced for {SILENCES[minutes]}"
        await self._act(lambda alert: self.actions.snooze(alert, minutes, by), done)

    async def _resolve(self) -> None:
        because = str(self._because.value or "").strip()[:MAX_REASON]
        self._missing.clear()
        if not because:
            with self._missing:
                ui.label("Write the reason first.")
            return
        self._dialog.close()
        by, done = self._name(), "Resolved; it ends with the next look of the evaluator"
        if await self._act(lambda alert: self.actions.resolve(alert, because, by), done):
            # The reason belongs to this alert only, so the next dialog starts empty.
            self._because.value = ""

    async def _act(self, act: AlertAction, done: str) -> bool:
        """Whether the action was written for the chosen alert; the outcome is shown."""
        alert_id = self._alert.value
        # A second press while the first action is being written does nothing.
        if self._is_busy or alert_id not in self.alerts:
            return False
        self._is_busy = True
        try:
            await act(alert_id)
        except (ViewsUnreachable, AlertNotOpen, Busy, EditsRefused, UnknownName) as error:
            if isinstance(error, ViewsUnreachable):
                log_unreachable(error)
            self._say(failure_text(str(error)))
            return False
        finally:
            self._is_busy = False
        label = self.alerts.get(alert_id, alert_id)
        self._say(note(f"{done}: {label}", data_acted="true"))
        return True

    def _name(self) -> str:
        return str(self._by.value or "").strip()[:MAX_NAME]

    def _say(self, text: Markup) -> None:
        frame.replace_content(self._outcome, text)


# Longer than the lag of a working projector ever is. Until then a received message is kept beside
# what the tables say.
MESSAGE_SECONDS = 120.0
AlertRows = list[ListedAlert]


class InboxRows(NamedTuple):
    """The open alerts, and the others raised in the period, each newest first."""

    open: AlertRows
    others: AlertRows


@dataclass
class Inbox:
    """The last state of each alert; duplicate or reordered messages lead to the same result."""

    clock: Callable[[], float] = time.monotonic
    is_overdue: Callable[[Alert], bool] = lambda _: False
    _alerts_by_id: dict[str, ListedAlert] = field(default_factory=dict, init=False)
    _messages: list[tuple[float, Alert]] = field(default_factory=list, init=False)

    def load(self, alerts: Iterable[ListedAlert]) -> None:
        """Replace the table rows with the current ones, and forget messages that are too old."""
        self._alerts_by_id = {alert.alert_id: alert for alert in alerts}
        oldest = self.clock() - MESSAGE_SECONDS
        self._messages = [(at, message) for at, message in self._messages if at > oldest]

    def add_message(self, alert: Alert) -> None:
        """Add a message of the stream."""
        self._messages.append((self.clock(), alert))

    @property
    def rows(self) -> InboxRows:
        """The rows to show now."""
        messages = [message for _, message in self._messages]
        last = current_states([*self._alerts_by_id.values(), *messages])
        listed_alerts = (
            to_listed(alert, self._is_open(alert, last), self.is_overdue(alert))
            for alert in last.values()
        )
        rows = sorted(listed_alerts, key=newest_first)
        open_alerts = [alert for alert in rows if alert.open]
        return InboxRows(open_alerts, [alert for alert in rows if not alert.open])

    def _is_open(self, alert: Alert, last: dict[str, Alert]) -> bool:
        if alert.edge != "raise" or alert.state == "retracted":
            return False
        # All known messages are searched, because an end may arrive before the tables have its
        # raise.
        ends = (end for end in last.values() if end.of == alert.alert_id)
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
        else:
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

    async def _load_alerts(self) -> AlertRows:
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
            frame.say_unreachable() if rows is None else self._lists(rows)
        if rows is not None:
            labels = {}
            for alert in rows.open[:MAX_SHOWN]:
                labels[alert.alert_id] = choice_text(alert, self.stores.get(alert.store_id))
            self._bar.offer(labels)

    def _lists(self, rows: InboxRows) -> None:
        live = "Live: new alerts show at once" if self.is_live else "Renewed every half minute"
        count = element("strong", f"{len(rows.open):,} open")
        html(foot(count, f" · {live}", role="status"))
        self._list("open", "Open", rows.open, "Nothing is open.")
        self._list("others", "Ended or taken back", rows.others, "Nothing else in these days.")

    def _list(self, name: str, title: str, alerts: AlertRows, none: str) -> None:
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
    top = _frame("Alert", selection.period, selection.stores[0])
    top = replace(top, description="One alert, by the clock of its store")
    load = partial(source.alerts.read_life, alert_id)
    hint = "The inbox has those that there are."
    life = await frame.load_or_say(load(), top, f"There is no alert {alert_id[:64]}", hint)
    if life is None:
        return
    alert, choice = life.last, selection.by_id.get(life.last.store_id)
    show_frame(replace(top, heading=markup.title_text(alert)))
    with ui.element("main").classes("t-body"):
        await keep_current(load, partial(_show_life, choice=choice), REFRESH_SECONDS)
        if alert.open:
            AlertActionBar(source.actions, {alert.alert_id: choice_text(alert, choice)}).show()


def _frame(heading: str, period: Period, chosen: StoreChoice, store_id: str = "") -> Frame:
    def address(_: str, to: Period) -> str:
        return inbox_address(to, store_id)

    return Frame("alerts", heading, period, address, chosen, days_clock="UTC days")


def _show_life(life: AlertLife, choice: StoreChoice | None) -> None:
    with panel(label="What it is"):
        is_open = str(life.last.open).lower()
        standing = element("strong", "Open" if life.last.open else "Not open", data_open=is_open)
        line = element("div", state_chip(life.last.state), standing, class_="t-line")
        html(line + life_facts(life, choice))
    with panel(label="Published states"):
        title = element("h2", "Published states, and what they were judged by", id="life")
        states = life_table([*life.states, *life.ends], choice)
        html(title + scroll(states, aria_labelledby="life"))
