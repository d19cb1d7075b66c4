from hashlib import sha256
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerting.alert.ids import Chain, alert_id, subject_text
from alerting.rules.rule import Subject
from tally.alerts.message import Edge

WINDOW = 1_774_745_100_000
KINDS: tuple[Subject, ...] = get_args(Subject)
EDGES: tuple[Edge, ...] = get_args(Edge)
# Few letters, those that separate among them: what could be told in two ways soon is.
parts = st.text("a1-", min_size=1, max_size=3)
values = st.text("a|:%71", max_size=4) | st.text(st.characters(codec=None), max_size=3)
subjects = st.tuples(st.sampled_from(KINDS), values).map(
    lambda one: (one[0], "") if one[0] == "none" else one
)
alerts = st.tuples(
    parts,
    parts,
    subjects,
    st.integers(1, 3),
    st.integers(0, 2).map(lambda number: WINDOW + number * 900_000),
    st.sampled_from(EDGES),
    st.integers(1, 12),
)
Described = tuple[str, str, tuple[Subject, str], int, int, Edge, int]


def id_of(alert: Described) -> str:
    rule, store, subject, version, window, edge, occurrence = alert
    chain = Chain(rule, store, subject_text(*subject))
    return alert_id(chain, version, window, edge, occurrence)


@given(alerts, alerts)
def test_alerts_that_differ_have_different_ids(one: Described, other: Described) -> None:
    assert (id_of(one) == id_of(other)) == (one == other)


@given(subjects, subjects)
def test_subjects_that_differ_have_different_texts(
    one: tuple[Subject, str], other: tuple[Subject, str]
) -> None:
    texts = subject_text(*one), subject_text(*other)

    assert (texts[0] == texts[1]) == (one == other)
    assert texts[0].isascii() and "|" not in texts[0]


@pytest.mark.parametrize(
    ("edge", "occurrence", "behind"),
    [("raise", 1, ""), ("clear", 1, "|clear"), ("raise", 2, "|2"), ("clear", 3, "|clear|3")],
)
def test_id_is_the_digest_of_its_parts(edge: Edge, occurrence: int, behind: str) -> None:
    text = f"queue-too-long|3|367|device:q%7C2|2026-03-29T00:45:00Z{behind}"
    chain = Chain("queue-too-long", "367", subject_text("device", "q|2"))

    found = alert_id(chain, 3, WINDOW, edge, occurrence)

    assert found == sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "chain", [Chain("a|1", "2", "none"), Chain("a", "1|2", "none"), Chain("a", "1", "item:x|y")]
)
def test_a_separator_inside_a_part_is_refused(chain: Chain) -> None:
    with pytest.raises(ValueError, match="no part of an alert's id"):
        alert_id(chain, 1, WINDOW)
