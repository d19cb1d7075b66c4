"""The buttons that act on an alert: acknowledge, silence, and resolve with a reason."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from markupsafe import Markup
from nicegui import ui

from alerting.alert.resolution import MAX_NAME, MAX_REASON
from alerting.queries.actions import AlertActions
from tally.errors import AlertNotOpen, Busy, EditsRefused, UnknownName, ViewsUnreachable
from web.dashboard.shared.frame import html, log_unreachable, panel
from web.dashboard.shared.markup import element, failure_text, note

# The length of a silence in minutes, and its label.
SILENCES = {60: "1 hour", 480: "8 hours", 1_440: "1 day"}
_CLOSED = Markup(
    "Acting on alerts from here is switched off (TALLY_RULE_EDITS): use"
    " <code>tally alerts ack</code>, <code>snooze</code> or <code>resolve</code>."
)


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
                self._inputs()
                self._buttons()
            self._outcome = ui.element("div").props('role="status"')
        self._dialog = self._reason_dialog()

    def offer(self, alerts: Mapping[str, str]) -> None:
        """Replace the alerts that can be chosen; the current choice stays if it is among them."""
        if alerts == self.alerts or not self.actions.is_allowed:
            return
        self.alerts = alerts
        chosen = self._alert.value
        # The list may be refreshed while a user is choosing.
        if chosen not in alerts:
            chosen = next(iter(alerts), None)
        self._alert.set_options(dict(alerts), value=chosen)

    def _inputs(self) -> None:
        first = next(iter(self.alerts), None)
        self._alert = ui.select(dict(self.alerts), label="Open alert", value=first)
        self._alert.mark("alert").props("dense outlined options-dense").classes("t-store")
        self._by = ui.input("Your name").props(f"dense outlined maxlength={MAX_NAME}")

    def _buttons(self) -> None:
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

        async def act(alert_id: str) -> str:
            await self.actions.acknowledge(alert_id, by)
            return f"Acknowledged by {by}"

        await self._act(act)

    async def _silence(self) -> None:
        # A browser may send any value, so only the offered ones are accepted.
        minutes = self._minutes.value if self._minutes.value in SILENCES else 60

        async def act(alert_id: str) -> str:
            await self.actions.snooze(alert_id, minutes, self._name())
            return f"Silenced for {SILENCES[minutes]}"

        await self._act(act)

    async def _resolve(self) -> None:
        because = str(self._because.value or "").strip()[:MAX_REASON]
        self._missing.clear()
        if not because:
            with self._missing:
                ui.label("Write the reason first.")
            return
        self._dialog.close()

        async def act(alert_id: str) -> str:
            await self.actions.resolve(alert_id, because, self._name())
            # The reason belongs to this alert only, so the next dialog starts empty.
            self._because.value = ""
            return "Resolved; it ends with the next look of the evaluator"

        await self._act(act)

    async def _act(self, act: Callable[[str], Awaitable[str]]) -> None:
        alert_id = self._alert.value
        # A second press while the first action is being written does nothing.
        if self._is_busy or alert_id not in self.alerts:
            return
        self._is_busy = True
        try:
            done = await act(alert_id)
        except (ViewsUnreachable, AlertNotOpen, Busy, EditsRefused, UnknownName) as error:
            if isinstance(error, ViewsUnreachable):
                log_unreachable(error)
            self._say(failure_text(str(error)))
        else:
            label = self.alerts.get(alert_id, alert_id)
            self._say(note(f"{done}: {label}", data_acted="true"))
        finally:
            self._is_busy = False

    def _name(self) -> str:
        return str(self._by.value or "").strip()[:MAX_NAME]

    def _say(self, text: Markup) -> None:
        self._outcome.clear()
        with self._outcome:
            html(text)
