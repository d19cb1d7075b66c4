"""The editor of a rule: its text, the text's problems, a simulation of the rule, and applying it.

The text is checked as soon as no key was pressed for a moment.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from markupsafe import Markup
from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from alerting.queries.rule_editing import EditedRule, RuleDraft, RuleEditService
from alerting.rules.rule import RuleVersion
from tally.errors import BadQuery, RuleConflict, SendFailed, UnknownName, ViewsUnreachable
from web.dashboard.rules.figure import RuleFigureSource
from web.dashboard.rules.pages import show_rule_figure
from web.dashboard.rules.rule_text import TEMPLATE, RuleText, draft_text, in_force_text, plan_text
from web.dashboard.shared.addresses import (
    LENGTHS,
    Period,
    parse_period,
    rule_address,
    rules_address,
)
from web.dashboard.shared.frame import Frame, html, load_or_say, log_unreachable, panel, show_frame
from web.dashboard.shared.markup import element, failure_text, note
from web.dashboard.shared.source import PageSelection, StoreChoice

# Time since the last key press before the text is checked, so that not every letter is.
IDLE_SECONDS = 0.5
_UNREACHABLE = "The rules cannot be read or written right now; `tally status` shows what runs."
_CLOSED = Markup(
    "Applying from here is switched off (TALLY_RULE_EDITS): keep the text as a file, and"
    " <code>tally rules apply FILE</code>."
)


@dataclass(frozen=True)
class EditorContext:
    """The rules that the editor works on, and whether they may be applied from the page."""

    editing: RuleEditService
    source: RuleFigureSource
    may_apply: bool


async def show_editor(place: EditorContext, rule_id: str | None, selection: PageSelection) -> None:
    """Draw the editor's page, or that the rule is unknown; `rule_id`: None for a new rule."""
    chosen, period = selection.chosen, selection.period
    heading = f"Edit {rule_id[:64]}" if rule_id else "New rule"
    frame = Frame("rules", heading, period, lambda _store, _of: rules_address(), chosen)
    opened: EditedRule | None = EditedRule(None, TEMPLATE)
    if rule_id:
        opened = await load_or_say(
            place.editing.load(rule_id),
            replace(frame, description="Rules"),
            f"There is no rule {rule_id[:64]}",
            "Write a new one, or choose another.",
        )
    if opened is None:
        return
    show_frame(
        replace(frame, description="As a rule's file says it; what has its default is left out")
    )
    with ui.element("main").classes("t-body"):
        store_id = chosen.store.store_id
        await RuleEditor(place, rule_id, opened, selection.by_id, store_id, period).show()


@dataclass
class RuleEditor:
    """The text being edited, and the panels around it.

    `base`: the version that the editing user has seen. The edited rule is applied only if this is
    still the newest version.
    """

    context: EditorContext
    rule_id: str | None
    original: EditedRule
    stores: Mapping[str, StoreChoice]
    store_id: str
    period: Period
    base: RuleVersion | None = field(init=False)
    _typed_at: float | None = field(default=None, init=False)
    _is_busy: bool = field(default=False, init=False)

    async def show(self) -> None:
        """Draw the panels and check the text once."""
        self.base, self._text = self.original.newest, self.original.text
        with panel("text"):
            html(element("h2", "The rule", id="text"))
            editor = RuleText(self._text, language="YAML", line_wrapping=True)
            editor.classes("t-editor").props('role="group" aria-label="Text of the rule"')
            editor.on_value_change(self._on_text_change)
            self._message_box = ui.element("div").props('aria-live="polite"')
            with ui.element("div").classes("t-controls"):
                self._buttons()
            self._outcome = ui.element("div")
        self._span_controls()
        self._drawn_box = ui.element("div").classes("t-body")
        await self._check_text()
        ui.timer(IDLE_SECONDS / 2, self._check_when_idle, immediate=False)

    def _buttons(self) -> None:
        shown = ui.button("What it would have published", on_click=self._simulate)
        shown.props("no-caps outline")
        if self.context.may_apply:
            ui.button("Apply", on_click=self._apply).props("no-caps unelevated")
        else:
            html(note(_CLOSED, data_closed="true"))

    def _span_controls(self) -> None:
        options = {store_id: choice.label for store_id, choice in self.stores.items()}
        with ui.element("div").classes("t-controls").props('role="group" aria-label="Shown days"'):
            store = ui.select(options, label="Store", value=self.store_id, with_input=True)
            store.props("dense outlined options-dense").classes("t-store")
            until = ui.input("Until", value=self.period.last.isoformat())
            until.props("type=date dense outlined").classes("t-until")
            length = ui.toggle({days: f"{days} days" for days in LENGTHS}, value=self.period.length)
            length.props('no-caps unelevated aria-label="Length"').classes("t-length")

        async def choose() -> None:
            # The page is not reloaded, because the text is not part of its address.
            self.store_id = store.value if store.value in self.stores else self.store_id
            newest = self.stores[self.store_id].last_day
            self.period = parse_period(str(until.value), str(length.value), newest)
            await self._simulate()

        store.on_value_change(choose)
        until.on("change", choose)
        length.on_value_change(choose)

    def _on_text_change(self, event: ValueChangeEventArguments[Any]) -> None:
        self._text, self._typed_at = str(event.value), time.monotonic()

    async def _check_when_idle(self) -> None:
        if self._typed_at is None or time.monotonic() - self._typed_at < IDLE_SECONDS:
            return
        await self._check_text()

    async def _check_text(self) -> RuleDraft | None:
        """The draft that the text describes now; None if the rules cannot be read."""
        # Text typed during the check is checked again afterwards.
        self._typed_at = None
        try:
            draft = await self.context.editing.check(self._text, self.rule_id)
        except ViewsUnreachable as error:
            log_unreachable(error)
            self._show_message(failure_text(_UNREACHABLE))
            return None
        message = draft_text(draft)
        if draft.plan:
            message += plan_text(draft.plan, int(time.time() * 1000))
        self._show_message(message)
        return draft

    async def _simulate(self) -> None:
        draft = await self._begin_action()
        if draft is None or draft.rule is None:
            return
        chosen = self.stores[self.store_id]
        rule = draft.rule
        try:
            drawn = await self.context.source.load_figure(
                rule.rule_id, chosen.store, self.period, rule
            )
        except (ViewsUnreachable, BadQuery) as error:
            self._show_outcome(failure_text(str(error)))
        else:
            self._drawn_box.clear()
            with self._drawn_box:
                show_rule_figure(drawn, rule, chosen)
        finally:
            self._is_busy = False

    async def _apply(self) -> None:
        draft = await self._begin_action() if self.context.may_apply else None
        if draft is None or draft.rule is None:
            return
        try:
            version = await self.context.editing.apply(draft.rule, self.base)
        except RuleConflict as error:
            # The newest version becomes the base, and the differences from it are shown before the
            # user can press again.
            await self._load_newest(draft.rule.rule_id)
            self._show_outcome(failure_text(str(error)))
        except (ViewsUnreachable, SendFailed) as error:
            self._show_outcome(failure_text(str(error)))
        else:
            self.base, self.rule_id = version, version.rule.rule_id
            await self._check_text()
            self._show_outcome(in_force_text(version))
            with self._outcome:
                address = rule_address(version.rule.rule_id, self.period, self.store_id)
                ui.link("The rule's page", address)
        finally:
            self._is_busy = False

    async def _begin_action(self) -> RuleDraft | None:
        """Start an action and return the draft; None if one runs or the rules cannot be read."""
        if self._is_busy:
            return None
        self._is_busy = True
        self._outcome.clear()
        draft = await self._check_text()
        self._is_busy = draft is not None and draft.rule is not None
        if draft is not None and draft.problems:
            self._show_outcome(failure_text("Mend what does not fit first."))
        return draft

    async def _load_newest(self, rule_id: str) -> None:
        try:
            opened = await self.context.editing.load(rule_id)
        except (UnknownName, ViewsUnreachable):
            return
        self.base, self.rule_id = opened.newest, rule_id
        await self._check_text()

    def _show_message(self, text: Markup) -> None:
        self._message_box.clear()
        with self._message_box:
            html(text)

    def _show_outcome(self, text: Markup) -> None:
        self._outcome.clear()
        with self._outcome:
            html(text)
