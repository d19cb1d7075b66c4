"""The editor of a rule: its text, the text's problems, a simulation of the rule, and applying it.

The text is checked as soon as no key was pressed for a moment; changes of its field are checked
before they are made.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import msgspec
import structlog
from markupsafe import Markup
from nicegui import ui
from nicegui.events import GenericEventArguments, ValueChangeEventArguments

from alerting.queries.known_rules import EditedRule, RuleDraft, RuleEditService
from alerting.rules.rule import Rule, RuleVersion
from tally.errors import BadQuery, RuleConflict, SendFailed, UnknownName, ViewsUnreachable
from web.dashboard.rules.figure import RuleFigureSource
from web.dashboard.rules.markup import draft_text, in_force_text, plan_text
from web.dashboard.rules.pages import show_rule_figure
from web.dashboard.shared import frame
from web.dashboard.shared.addresses import RULES, Period, parse_period, rule_address
from web.dashboard.shared.markup import element, failure_text, note
from web.dashboard.shared.source import PageSelection, StoreChoice

# The most characters that the checks of an edited rule read.
MAX_SIGNS = 20_000
# Time since the last key press before the text is checked, so that not every letter is.
IDLE_SECONDS = 0.5
_UNREACHABLE = "The rules cannot be read or written right now; `tally status` shows what runs."
_CLOSED = Markup(
    "Applying from here is switched off (TALLY_RULE_EDITS): keep the text as a file, and"
    " <code>tally rules apply FILE</code>."
)
# The initial text of a new rule, which is valid as it stands.
TEMPLATE = """\
rule_id: busy-quarter
metric: transactions
stores: all
condition: {op: ">=", value: 20}
clear: {op: "<=", value: 15}
severity: info
title: Many receipts in a quarter hour
"""
log = structlog.get_logger()


class _ChangeSet(msgspec.Struct):
    """A change as CodeMirror sends it, lengths in UTF-16 units.

    `sections`: alternating old and new lengths; the new length is -1 where the text is unchanged.
    `inserted`: for each section the lines that are inserted.
    """

    sections: list[Annotated[int, msgspec.Meta(ge=-1)]]
    inserted: list[list[str]]


class RuleText(ui.codemirror):
    """CodeMirror with a text of bounded length. A client that sends an invalid change is deleted.

    NiceGUI applies any change set, and one with negative lengths makes it copy the text as often as
    the change set says.
    """

    def _event_args_to_value(self, e: GenericEventArguments) -> str:
        before = self.value or ""
        try:
            change = msgspec.convert(e.args, _ChangeSet)
        except msgspec.ValidationError as error:
            return self._refuse(str(error))
        # A text that was too long from the start may become shorter, but not longer.
        most = max(MAX_SIGNS, len(before))
        problem = change_problem(change.sections, change.inserted, before, most)
        return self._refuse(problem) if problem else super()._event_args_to_value(e)

    def _refuse(self, reason: str) -> str:
        log.warning("dashboard: a change of a rule's text was refused", reason=reason)
        self.client.delete()
        return self.value or ""


def change_problem(
    sections: Sequence[int], inserted: Sequence[Sequence[str]], text: str, most: int
) -> str:
    """Why the change set does not fit the text, or makes it longer than `most`; empty if valid."""
    old, new = sections[::2], sections[1::2]
    if len(old) != len(new) or any(length < 0 for length in old):
        return "sections: lengths come in pairs, and the old one is not negative"
    units = _units(text)
    if sum(old) != units:
        return f"sections: they are of {sum(old):,} units, and the text has {units:,}"
    if len(inserted) > len(new):
        return f"inserted: {len(inserted):,} are more than {len(new):,} sections"
    # The length is counted in UTF-16 units; a text has at least as many units as characters.
    pairs = zip(old, new, strict=True)
    kept_units = sum(length for length, now in pairs if now == -1)
    length = kept_units + sum(_units("\n".join(lines)) for lines in inserted)
    if length > most:
        return f"the text would have {length:,} signs; {most:,} are the most"
    return ""


def _units(text: str) -> int:
    return len(text) + sum(sign > "\uffff" for sign in text)


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
    top = frame.Frame("rules", heading, period, lambda _store, _of: RULES, chosen)
    opened: EditedRule | None = EditedRule(None, TEMPLATE)
    if rule_id:
        opened = await frame.load_or_say(
            place.editing.load(rule_id),
            replace(top, description="Rules"),
            f"There is no rule {rule_id[:64]}",
            "Write a new one, or choose another.",
        )
    if opened is None:
        return
    description = "As a rule's file says it; what has its default is left out"
    frame.show_frame(replace(top, description=description))
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
        with frame.panel("text"):
            frame.html(element("h2", "The rule", id="text"))
            editor = RuleText(self._text, language="YAML", line_wrapping=True)
            editor.classes("t-editor").props('role="group" aria-label="Text of the rule"')
            editor.on_value_change(self._on_text_change)
            self._message_box = ui.element("div").props('aria-live="polite"')
            with ui.element("div").classes("t-controls"):
                shown = ui.button("What it would have published", on_click=self._simulate)
                shown.props("no-caps outline")
                if self.context.may_apply:
                    ui.button("Apply", on_click=self._apply).props("no-caps unelevated")
                else:
                    frame.html(note(_CLOSED, data_closed="true"))
            self._outcome = ui.element("div")
        self._span_controls()
        self._drawn_box = ui.element("div").classes("t-body")
        await self._check_text()
        ui.timer(IDLE_SECONDS / 2, self._check_when_idle, immediate=False)

    def _span_controls(self) -> None:
        with ui.element("div").classes("t-controls").props('role="group" aria-label="Shown days"'):
            store = frame.store_picker(self.stores.values(), self.store_id)
            until = frame.until_input(self.period)
            length = frame.length_toggle(self.period, "Length")

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
        if self._typed_at is not None and time.monotonic() - self._typed_at >= IDLE_SECONDS:
            await self._check_text()

    async def _check_text(self) -> RuleDraft | None:
        """The draft that the text describes now; None if the rules cannot be read."""
        # Text typed during the check is checked again afterwards.
        self._typed_at = None
        try:
            draft = await self.context.editing.check(self._text, self.rule_id)
        except ViewsUnreachable as error:
            frame.log_unreachable(error)
            frame.replace_content(self._message_box, failure_text(_UNREACHABLE))
            return None
        message = draft_text(draft)
        if draft.plan:
            message += plan_text(draft.plan, int(time.time() * 1000))
        frame.replace_content(self._message_box, message)
        return draft

    async def _simulate(self) -> None:
        rule = await self._begin_action()
        if rule is None:
            return
        chosen, source = self.stores[self.store_id], self.context.source
        try:
            drawn = await source.load_figure(rule.rule_id, chosen.store, self.period, rule)
        except (ViewsUnreachable, BadQuery) as error:
            self._show_outcome(failure_text(str(error)))
        else:
            self._drawn_box.clear()
            with self._drawn_box:
                show_rule_figure(drawn, rule, chosen)
        finally:
            self._is_busy = False

    async def _apply(self) -> None:
        rule = await self._begin_action() if self.context.may_apply else None
        if rule is None:
            return
        try:
            version = await self.context.editing.apply(rule, self.base)
        except RuleConflict as error:
            # The newest version becomes the base, and the differences from it are shown before the
            # user can press again.
            await self._load_newest(rule.rule_id)
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

    async def _begin_action(self) -> Rule | None:
        """Start an action and return the rule; None if one runs, or there is no rule to act on."""
        if self._is_busy:
            return None
        self._is_busy = True
        self._outcome.clear()
        draft = await self._check_text()
        if draft is not None and draft.problems:
            self._show_outcome(failure_text("Mend what does not fit first."))
        rule = draft.rule if draft else None
        self._is_busy = rule is not None
        return rule

    async def _load_newest(self, rule_id: str) -> None:
        try:
            opened = await self.context.editing.load(rule_id)
        except (UnknownName, ViewsUnreachable):
            return
        self.base, self.rule_id = opened.newest, rule_id
        await self._check_text()

    def _show_outcome(self, text: Markup) -> None:
        frame.replace_content(self._outcome, text)
