"""The rule editor's text field, whose changes are checked before they are applied."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import structlog
from nicegui import ui
from nicegui.events import GenericEventArguments

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
