"""Laws of normalisation and of the replay plan, for whatever a stranger may send."""

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.senders.replay.perturbation import Perturbation, PlannedMessage, Receipt, plan_messages
from ingest.sources.sales.record import CanonicalReceipt
from schemas import loader
from tally.errors import RejectedEvent
from tests.unit.ingest.bounds import beyond_bounds
from tests.unit.ingest.bounds import outcome as outcome_now
from tests.unit.ingest.bounds import written as canonical_bytes
from tests.unit.ingest.messages import interval, receipt

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
CENTS = st.integers(-(10**6), 10**6)
LINES = st.lists(st.tuples(CENTS, st.integers(-9999, 9999)), min_size=1, max_size=5)
NAMES = st.sampled_from(
    [
        "happened_at",
        "operation_id",
        "transaction_id",
        "vendor_fiscal_module",
        "transactions",
        "kind",
        "currency",
    ]
)
INTERVAL_NAMES = st.sampled_from(["store_id", "device_id", "interval_seconds", "in", "out"])
NEAR = {
    "happened_at": "2017-09-19T22:48:03Z",
    "operation_id": 1,
    "transaction_id": 2,
    "vendor_fiscal_module": 3,
}


def outcome(convert: Any, message: bytes) -> str:
    """The reason of the rejection, or "taken"; any other error passes through and fails the law."""
    try:
        convert(message)
    except RejectedEvent as error:
        return error.reason
    return "taken"


@given(st.binary(max_size=200))
def test_any_bytes_are_taken_or_rejected_for_a_known_reason(message: bytes) -> None:
    assert outcome(receipt, message) in ("taken", *loader.dead_letter_reasons())
    assert outcome(interval, message) in ("taken", *loader.dead_letter_reasons())


@settings(max_examples=40)
@given(st.dictionaries(NAMES | INTERVAL_NAMES | st.text(max_size=5), JSON), JSON)
def test_any_json_is_taken_or_rejected_for_a_known_reason(
    fields: dict[str, Any], line: Any
) -> None:
    message = json.dumps({**NEAR, "transactions": [line], **fields}).encode()

    assert outcome(receipt, message) in ("taken", *loader.dead_letter_reasons())
    assert outcome(interval, message) in ("taken", *loader.dead_letter_reasons())


@given(JSON, JSON, JSON)
def test_any_line_is_taken_or_rejected_for_a_known_reason(
    price: Any, amount: Any, extra: Any
) -> None:
    line = {"item": "a", "price": price, "amount": amount, "extra": extra}
    message = json.dumps({**NEAR, "transactions": [line]}).encode()

    assert outcome(receipt, message) in ("taken", *loader.dead_letter_reasons())


DIGITS = st.integers(1, 4000).map(lambda count: "7" * count)
NUMBER = st.one_of(
    DIGITS,
    DIGITS.map(lambda digits: "0." + digits),
    st.integers(-999, 999).map(lambda power: f"1e{power}"),
    DIGITS.map("-{}.5e9".format),
)
TEXT = st.tuples(st.text(max_size=4), st.integers(0, 6000)).map(
    lambda drawn: json.dumps(drawn[0] * drawn[1])
)
NAME = st.tuples(st.text(min_size=1, max_size=3), st.integers(1, 200)).map(
    lambda drawn: json.dumps(drawn[0] * drawn[1])
)
LARGE = st.recursive(
    NUMBER | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda of: f"[{','.join(of)}]")
        | st.tuples(NAME, inner).map(lambda of: f"{{{of[0]}:{of[1]}}}")
    ),
    max_leaves=6,
)


@settings(max_examples=150)
@given(NAME, LARGE, NAME, LARGE)
def test_whatever_is_accepted_keeps_the_bounds_of_every_reader(
    name: str, value: str, line_name: str, line_value: str
) -> None:
    line = f'{{"item": "a", "price": 1, "amount": 1, {line_name}: {line_value}}}'
    message = f'{json.dumps(NEAR)[:-1]}, "transactions": [{line}], {name}: {value}}}'.encode()

    if outcome_now("pos", message) == "accepted":
        assert beyond_bounds("sales", canonical_bytes("pos", message)) == []


def written(lines: list[tuple[int, int]], number: str, order: int, space: str) -> bytes:
    """One receipt with this spelling of its prices, order of its fields and white space."""
    tree = {
        **NEAR,
        "transactions": [
            {"item": "a", "price": number.format(cents / 100), "amount": amount}
            for cents, amount in lines
        ],
    }
    names = list(tree)[order:] + list(tree)[:order]
    return json.dumps(
        {name: tree[name] for name in names}, separators=("," + space, space + ":")
    ).encode()


@given(LINES, st.integers(0, 4), st.sampled_from(["{:.2f}", "{:.3f}", "{:.5f}"]))
def test_fingerprint_does_not_depend_on_order_white_space_or_spelling(
    lines: list[tuple[int, int]], order: int, number: str
) -> None:
    assert (
        receipt(written(lines, number, order, " ")).fingerprint
        == receipt(written(lines, "{:.2f}", 0, "\n ")).fingerprint
    )


@given(LINES)
def test_parts_of_a_sale_add_up_to_its_lines(lines: list[tuple[int, int]]) -> None:
    made = receipt(written(lines, "{:.2f}", 0, " "))

    # A line of a negative price alone sells nothing, and takes nothing back.
    counted = [line for line in made.lines if line.total_minor >= 0 or line.amount_milli < 0]
    counted = [line for line in counted if line.total_minor <= 0 or line.amount_milli >= 0]
    assert made.units_milli == sum(line.amount_milli for line in counted)
    assert made.gross_minor >= 0 <= made.returns_minor
    net = made.gross_minor - made.discounts_minor - made.returns_minor
    assert net == sum(line.total_minor for line in made.lines)
    assert msgspec.json.decode(msgspec.json.encode(made), type=CanonicalReceipt) == made


PLANS = st.builds(
    Perturbation,
    seed=st.integers(0, 9),
    duplicates=st.sampled_from([0, 0.5, 1]),
    disorder=st.sampled_from([0, 300]),
    late=st.sampled_from([0, 0.3]),
    conflicts=st.integers(0, 5),
    bad=st.integers(0, 5),
    receipts=st.just(40),
)
MESSAGE = (
    '{{"happened_at":"{}","operation_id":1,"transaction_id":{},"vendor_fiscal_module":1,'
    '"transactions":[{{"item":"a","price":1,"amount":1}}]}}'
)
RECEIPTS = [
    Receipt(
        "1",
        1483228800 + 600 * number,
        MESSAGE.format(f"2017-01-01T{number // 6:02d}:{number % 6}0:00+00:00", number).encode(),
    )
    for number in range(40)
]


@settings(max_examples=50)
@given(PLANS)
def test_replay_sends_in_order_of_time_every_receipt_once_first(plan: Perturbation) -> None:
    sent = list(plan_messages(RECEIPTS, plan))

    assert [sending.send_at for sending in sent] == sorted(sending.send_at for sending in sent)
    assert sorted(
        sending.value for sending in sent if sending.kind in ("original", "late")
    ) == sorted(r.message for r in RECEIPTS)
    assert sent == list(plan_messages(RECEIPTS, plan))
    assert sum(sending.kind == "conflict" for sending in sent) == plan.conflicts
    assert sum(sending.kind == "bad" for sending in sent) == plan.bad


@settings(max_examples=50)
@given(PLANS)
def test_replayed_first_copy_comes_before_its_duplicate_and_conflict(plan: Perturbation) -> None:
    first: dict[str, PlannedMessage] = {}
    for sending in plan_messages(RECEIPTS, plan):
        if sending.kind == "bad":
            continue
        made = receipt(sending.value)
        if sending.kind in ("original", "late"):
            first[made.event_id] = sending
        before = receipt(first[made.event_id].value)
        assert (made.fingerprint != before.fingerprint) == (sending.kind == "conflict")
