"""Reasons why a rule no longer judges a subject, and forced ends of episodes."""

from collections.abc import Mapping

from alerting.alert.ids import subject_text
from alerting.episodes.fold import VerdictRange
from alerting.episodes.verdict import ENDS, RESOLVES
from alerting.evaluate.scope.rule_set import VersionedRule
from alerting.evaluate.snapshot.calendar import StoreCalendarDays
from alerting.evaluate.snapshot.rule_stores import applies_to
from alerting.evaluate.state.chain_memory import ForcedEnd
from alerting.rules.rule import RuleVersion
from tally.alerts.message import Reason
from tally.time.windows import WINDOW_MILLIS

_WHOLE_STORE = subject_text("none")


def lapse_reason(
    rule: VersionedRule,
    version: RuleVersion | None,
    days: StoreCalendarDays,
    place: tuple[str, int],
) -> Reason | None:
    """Why the rule no longer judges the subject; None if it still does, or never did.

    `version`: the version that judges the window; `place`: the subject, and the window's start in
    milliseconds since 1970 (UTC).
    """
    subject, window = place
    if version is None:
        return "rule" if rule.is_retired(window) else _removal_reason(days, subject, window)
    is_of_articles = version.rule.subject != "none"
    if is_of_articles == (subject == _WHOLE_STORE):
        return "rule"
    # The local date is computed only for the few rules that need it.
    if version.rule.stores != "all":
        day = days.date(window)
        if not applies_to(version.rule, days.store, day):
            return "rule"
    return _removal_reason(days, subject, window)


def apply_forced_ends(stretch: VerdictRange, forced: Mapping[int, ForcedEnd]) -> bytes:
    """The verdicts of the stretch with the forced ends put in.

    `forced`: forced ends by the window's start, milliseconds since 1970 (UTC).
    """
    verdicts = bytearray(stretch.verdicts)
    for window, end in forced.items():
        place = (window - stretch.start) // WINDOW_MILLIS
        if 0 <= place < len(verdicts):
            verdicts[place] = (RESOLVES if end.reason == "resolved" else ENDS)[0]
    return bytes(verdicts)


def _removal_reason(days: StoreCalendarDays, subject: str, window: int) -> Reason | None:
    """The reason if the stores file says that the store is closed or the article delisted."""
    entry = days.store.entry
    if entry.closed is not None and days.date(window) >= entry.closed:
        return "closed"
    if not entry.delisted or subject == _WHOLE_STORE:
        return None
    by_subject = {subject_text("item", item): day for item, day in entry.delisted.items()}
    delisted = by_subject.get(subject)
    return "delisted" if delisted is not None and days.date(window) >= delisted else None
