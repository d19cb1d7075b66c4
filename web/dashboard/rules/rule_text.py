"""The text of a rule in the editor: its field, and what is said of the text.

Changes of the field are checked before they are applied.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
import structlog
from markupsafe import Markup
from nicegui import ui
from nicegui.events import GenericEventArguments

from alerting.queries.rule_editing import RuleDraft, RuleProblem
from alerting.rules.changes import RuleFieldChange, RulePlan
from alerting.rules.rule import RuleVersion
from alerting.rules.versions import effective_from
from tally.time.instants import from_millis
from web.dashboard.rules.markup import version_text
from web.dashboard.shared.alert_labels import instant_text
from web.dashboard.shared.labels import NOTHING
from web.dashboard.shared.markup import element, note, row, scroll, table

# The most characters that the checks of an edited rule read.
MAX_SIGNS = 20_000

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
        problem = change_problem(
            change.sections, change.inserted, before, max(MAX_SIGNS, len(before))
        )
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
    joined = ("\n".join(lines) for lines in inserted)
    length = kept_units + sum(map(_units, joined))
    if length > most:
        return f"the text would have {length:,} signs; {most:,} are the most"
    return ""


def _units(text: str) -> int:
    return len(text) + sum(sign > "\uffff" for sign in text)


# The same words as in `tally rules diff`.
_WORDS = {
    "new": "A new rule",
    "version": "A new version",
    "revision": "Published in another way from now on, without a new version",
    "same": "Applying it changes nothing",
}
_COLUMNS = ("Field", "Before", "After")
_MAX_CHARACTERS = 300
_UTC = ZoneInfo("UTC")
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


def draft_text(draft: RuleDraft) -> Markup:
    """Whether the text is a valid rule, with a line for each problem."""
    if not draft.problems:
        return note("✓ The rule fits.", data_state="complete", data_fits="true")
    count = len(draft.problems)
    head = "1 problem" if count == 1 else f"{count} problems"
    summary = note(f"⊘ {head}", data_state="missing", data_fits="false")
    return summary + element("ul", *map(_problem, draft.problems), class_="t-problems")


def plan_text(plan: RulePlan, now_millis: int) -> Markup:
    """What applying the rule would change, and from when; `now_millis`: ms since 1970 (UTC)."""
    words = _WORDS[plan.change]
    if plan.change in ("new", "version"):
        # The brokers' clock decides, and it may differ from ours, hence "at the earliest".
        since = instant_text(from_millis(effective_from(now_millis)), _UTC)
        words += f"; written now it is in force from {since} UTC at the earliest"
    summary = note(f"{words}.", data_change=plan.change)
    # All fields of a new rule are new, so they are not listed as changes.
    if plan.change == "new" or not plan.fields:
        return summary
    return summary + scroll(table(_COLUMNS, map(_change_row, plan.fields)), aria_label="Changes")


def in_force_text(version: RuleVersion) -> Markup:
    """The message that a version is in force, as it was read back."""
    since = instant_text(from_millis(version.effective_from), _UTC)
    return note(
        f"✓ {version.rule.rule_id} version {version_text(version)} holds, in force from {since}"
        " UTC.",
        role="status",
        data_applied=f"{version.version}.{version.revision}",
    )


def _problem(problem: RuleProblem) -> Markup:
    text = problem.text[:_MAX_CHARACTERS]
    if len(problem.text) > _MAX_CHARACTERS:
        text += "…"
    if problem.line is None:
        return element("li", text, data_line="")
    place = element("strong", f"line {problem.line}")
    return element("li", place, f" {text}", data_line=problem.line)


def _change_row(change: RuleFieldChange) -> Markup:
    texts = (change.field, _value_text(change.before), _value_text(change.after))
    return row(*(text[:_MAX_CHARACTERS] for text in texts), data_field=change.field)


def _value_text(value: Any) -> str:
    match value:
        case None | "":
            return NOTHING
        case Mapping():
            parts = {name: part for name, part in value.items() if part is not None}
            return (
                ", ".join(f"{name} {_value_text(part)}" for name, part in parts.items()) or NOTHING
            )
        case str():
            return value
        case Sequence():
            return ", ".join(map(_value_text, value)) or NOTHING
    return str(value)
