"""Names of alerts: a unique id per alert, and subject texts that never hold the separator."""

from hashlib import sha256
from typing import Annotated
from urllib.parse import quote

from msgspec import Meta, Struct

from alerting.rules.rule import Subject
from tally.alerts.message import Edge
from tally.time.instants import from_millis

AlertId = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
# This character occurs in no rule id, no store id, and no result of subject_text().
_SEPARATOR = "|"


class Chain(Struct, frozen=True):
    """One sequence of verdicts over all versions of a rule; `subject` is as of subject_text()."""

    rule_id: str
    store_id: str
    subject: str


def subject_text(kind: Subject, value: str = "") -> str:
    """The subject as written in ids and messages; two different subjects never share a text.

    >>> subject_text("none"), subject_text("item", "A|1"), subject_text("item", "A%7C1")
    ('none', 'item:A%7C1', 'item:A%257C1')
    """
    # A lone surrogate cannot be encoded as text, but an item number may still contain one.
    return kind if kind == "none" else f"{kind}:{quote(value, safe='', errors='surrogatepass')}"


# The store as a whole.
WHOLE_STORE = subject_text("none")


def window_text(window: int) -> str:
    """The start of a window (milliseconds since 1970, UTC) as written in ids and messages.

    >>> window_text(1_774_745_100_000)
    '2026-03-29T00:45:00Z'
    """
    return from_millis(window).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def alert_id(
    chain: Chain, version: int, window: int, edge: Edge = "raise", occurrence: int = 1
) -> str:
    """The alert's id, 64 hex digits; alerts that differ in any part have different ids.

    `window`: start of the window for which it is first published, milliseconds since 1970 (UTC).
    Raises ValueError for a part that holds the separator.
    """
    parts = [chain.rule_id, str(version), chain.store_id, chain.subject, window_text(window)]
    if any(_SEPARATOR in part for part in parts):
        raise ValueError(f"{chain}: no part of an alert's id may hold {_SEPARATOR!r}")
    # Default values are left out: the id of a first raise is the digest of five parts.
    parts += ["clear"] * (edge == "clear") + [str(occurrence)] * (occurrence > 1)
    return sha256(_SEPARATOR.join(parts).encode()).hexdigest()
