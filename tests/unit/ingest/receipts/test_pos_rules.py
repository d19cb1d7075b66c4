"""What a receipt adds, by the rules of the sales source: the cases of pos_cases.yaml, and any
other."""

from dataclasses import replace
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ingest.installation.stores import StoreMoney
from ingest.sources.sales.contract import PARTS
from ingest.sources.sales.lines import is_sold
from ingest.sources.sales.record import STATUSES, CanonicalReceipt, RuleTable, load_rules
from runtime.registry.stores import StoreEntry
from schemas.source import BadSource, read_yaml
from tally.events.identity import REVERSAL
from tally.events.money import ROUNDINGS, minor_digits
from tally.events.receipt_rules import (
    KINDS,
    LINE_TYPES,
    SENT_LINE_TYPES,
    ChainEvent,
    adds_nothing,
    effective_event_ids,
)
from tests.support.oracles import pos_oracle
from tests.unit.ingest.messages import RULES, parts, pos, receipt

CASES = yaml.safe_load((Path(__file__).with_name("pos_cases.yaml")).read_text("utf-8"))


def message_of(case: dict[str, Any]) -> dict[str, Any]:
    lines = [{"item": "x", "amount": 1, **line} for line in case["lines"]]
    names = ("kind", "training", "transaction_status", "voids")
    named = {name: case[name] for name in names if name in case}
    return pos(transactions=lines, **named)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_what_a_till_says_adds_what_the_case_says(case: dict[str, Any]) -> None:
    message = message_of(case)

    assert parts(message) == case["adds"]
    assert receipt(message).rule == case.get("rule")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_the_oracle_reads_the_same_from_the_text_of_the_rules(case: dict[str, Any]) -> None:
    added = dict(zip(pos_oracle.PARTS, pos_oracle.parts_of(message_of(case)), strict=True))

    assert {part: value for part, value in added.items() if value} == case["adds"]


lines = st.fixed_dictionaries(
    {
        "item": st.just("x"),
        "price": st.sampled_from(["1.00", "-1.00", "0", "0.99", "2.345"]),
        "amount": st.sampled_from([0, 1, -1, 2, 0.5]),
    },
    optional={
        "total": st.sampled_from(["0", "1.50", "-0.50"]),
        "line_type": st.sampled_from(SENT_LINE_TYPES),
        "cancelled": st.booleans(),
    },
)
messages = st.fixed_dictionaries(
    {"transactions": st.lists(lines, min_size=1, max_size=6)},
    optional={
        "kind": st.sampled_from(KINDS),
        "voids": st.just({"vendor_fiscal_module": "5", "transaction_id": "41"}),
        "training": st.booleans(),
        "transaction_status": st.sampled_from(STATUSES),
    },
).map(lambda fields: pos(**fields))


@given(messages)
def test_any_receipt_adds_what_the_oracle_reads(message: dict[str, Any]) -> None:
    made = receipt(message)

    assert tuple(getattr(made, part) for part in pos_oracle.PARTS) == pos_oracle.parts_of(message)
    assert made.rule == pos_oracle.rule_of(message)


@given(messages)
def test_net_of_a_sale_is_the_total_of_its_lines_that_are_neither_void_nor_beside_it(
    message: dict[str, Any],
) -> None:
    made = receipt({**message, "kind": "sale", "training": False, "transaction_status": "finished"})

    articles = (line for line in made.lines if line.line_type == "item" and not line.cancelled)
    net = made.gross_minor - made.discounts_minor - made.returns_minor - made.voids_minor
    assert net == sum(line.total_minor for line in articles)


@given(messages, st.sampled_from(KINDS))
def test_parts_of_any_kind_add_up_to_the_total_of_its_lines(
    message: dict[str, Any], kind: str
) -> None:
    made = receipt({**message, "kind": kind, "training": False, "transaction_status": "finished"})

    total = sum(line.total_minor for line in made.lines if is_sold(line))
    net = made.gross_minor - made.discounts_minor - made.returns_minor - made.voids_minor
    # A void takes away what its lines come to; those of a return come back already.
    assert net + made.non_sales_minor == (-total if kind == "void" else total)
    assert kind != "return" or total <= 0


@given(
    messages,
    st.sampled_from(KINDS),
    st.sampled_from([ROUND_HALF_UP, ROUND_HALF_EVEN, ROUND_DOWN]),
    st.booleans(),
)
def test_parts_and_rounding_of_a_receipt_are_the_total_of_its_till(
    message: dict[str, Any], kind: str, rounding: str, is_by_line: bool
) -> None:
    """However the till rounds: each line or the receipt, half up or half to even."""
    plain = {"kind": kind, "training": False, "transaction_status": "finished"}
    made = receipt({**message, **plain})
    exact = [
        exact_total(line) * 10 ** minor_digits(made.currency)
        for line, kept in zip(message["transactions"], made.lines, strict=True)
        if is_sold(kept)
    ]
    whole = [total.quantize(Decimal(1), rounding) for total in exact]
    total = sum(whole) if is_by_line else sum(exact, Decimal(0)).quantize(Decimal(1), rounding)
    if abs(total - sum(exact)) * 2 > len(exact):
        # Cutting off is no rounding.
        return
    said = str(Decimal(total).scaleb(-minor_digits(made.currency)))

    told = receipt({**message, **plain, "net_total": said})

    net = told.gross_minor - told.discounts_minor - told.returns_minor - told.voids_minor
    # The total of a void or a return has either sign.
    assert abs(net + told.non_sales_minor + told.rounding_minor) == abs(total)


@given(messages, st.sampled_from(KINDS), st.integers(-4, 4), st.booleans())
def test_total_may_be_rounded_as_the_receipts_own_line_says(
    message: dict[str, Any], kind: str, cents: int, is_negated: bool
) -> None:
    """As to five cents in cash: the till's total has it, or leaves it to what is paid."""
    plain = {"kind": kind, "training": False, "transaction_status": "finished"}
    sent = [one for one in message["transactions"] if one.get("line_type") != "rounding"]
    if not sent:
        return
    made = receipt({**message, **plain, "transactions": sent})
    # As they were sent: a return may have turned their signs.
    both = zip(sent, made.lines, strict=True)
    total = sum(minor(one) for one, kept in both if is_sold(kept))
    line = {"item": "cash", "price": f"{Decimal(cents).scaleb(-2)}", "amount": 1}
    rounded = [*sent, {**line, "line_type": "rounding"}]
    sign = -1 if is_negated and kind != "sale" else 1

    for said, rounding in ((total, 0), (total + cents, abs(cents))):
        net_total = f"{Decimal(sign * said).scaleb(-2)}"
        told = receipt({**message, **plain, "transactions": rounded, "net_total": net_total})

        net = told.gross_minor - told.discounts_minor - told.returns_minor - told.voids_minor
        assert abs(net + told.non_sales_minor + told.rounding_minor) == abs(said)
        # Half a cent a line may explain it too.
        assert abs(told.rounding_minor) <= max(rounding, len(sent) // 2)


def minor(line: dict[str, Any]) -> int:
    """The line's total in cents, as it was sent."""
    return int((exact_total(line) * 100).quantize(Decimal(1), ROUND_HALF_UP))


@given(messages, st.sampled_from([*ROUNDINGS]))
def test_where_no_total_is_sent_the_store_says_how_its_tills_round(
    message: dict[str, Any], word: str
) -> None:
    rounding = ROUNDINGS[word]
    plain = {"training": False, "transaction_status": "finished", "kind": "sale"}
    entries = {str(message["operation_id"]): StoreEntry(rounding=word)}
    money = StoreMoney("USD", entries=entries)
    told = receipt({**message, **plain}, replace(RULES, money=money))

    both = zip(message["transactions"], told.lines, strict=False)
    units = 10 ** minor_digits(told.currency)
    exact = [exact_total(line) * units for line, kept in both if is_sold(kept)]
    whole = sum(total.quantize(Decimal(1), rounding.mode) for total in exact)
    if rounding.per_receipt:
        whole = sum(exact, Decimal(0)).quantize(Decimal(1), rounding.mode)
    net = told.gross_minor - told.discounts_minor - told.returns_minor - told.voids_minor
    assert net + told.non_sales_minor + told.rounding_minor == whole
    assert rounding.per_receipt or not told.rounding_minor


def exact_total(line: dict[str, Any]) -> Decimal:
    given = line.get("total")
    number = Decimal(str(line["price"])) * Decimal(str(line["amount"]))
    return number if given is None else Decimal(str(given))


@given(messages)
def test_identity_of_a_receipt_tells_whether_a_rule_leaves_it_out(message: dict[str, Any]) -> None:
    # Colons within ids are no more of them.
    made = receipt({**message, "operation_id": "a:b", "transaction_id": "1:2"})

    takes_back = made.event_id.startswith(REVERSAL)
    assert adds_nothing(made.event_id.removeprefix(REVERSAL)) == (made.rule is not None)
    assert takes_back == (made.rule is None and made.kind == "void" and made.voids is not None)


def test_every_word_that_a_till_may_say_is_one_of_some_rule_or_plain() -> None:
    table = load_rules()
    statuses = {word for rule in table.left_out for word in rule.when.status or ()}
    types = {word for rule in table.lines for word in rule.when.type or ()}

    assert statuses == {*STATUSES} - {"finished"}
    assert types == {*LINE_TYPES} - {"item"}


def test_a_message_of_before_there_were_rules_is_no_conflict_when_it_comes_again() -> None:
    plain = pos()
    said = pos(training=False, transaction_status="finished")
    said["transactions"] = [{**line, "line_type": "item"} for line in said["transactions"]]

    assert receipt(plain).fingerprint == receipt(said).fingerprint
    assert receipt(pos(training=True)).fingerprint != receipt(plain).fingerprint


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{id: a, when: {kind: [gift]}, adds: {}}", r"when\.kind\[0\]: Invalid enum value 'gift'"),
        ("{id: a, when: {}, adds: {gross: total}}", "Invalid enum value 'gross'"),
        ("{id: a, when: {}, adds: {gross_minor: price}}", "Invalid enum value 'price'"),
        ("{id: a, when: {colour: red}, adds: {}}", "unknown field `colour`"),
    ],
)
def test_a_mistake_in_the_rules_is_told_with_its_place(
    text: str, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(f"left_out: []\nreceipts: []\nlines: [{text}]\n")

    with pytest.raises(BadSource, match=told):
        read_yaml(file, RuleTable)


@given(messages, st.sampled_from(KINDS[:2]), st.integers(0, 2), st.booleans())
def test_receipt_that_is_voided_after_any_version_counts_in_no_part(
    message: dict[str, Any], kind: str, revisions: int, names_time: bool
) -> None:
    plain = {"training": False, "transaction_status": "finished"}
    sold = {**message, **plain, "kind": kind}
    versions = [receipt({**sold, **({"revision": n} if n else {})}) for n in range(revisions + 1)]
    voids: dict[str, Any] = {
        "vendor_fiscal_module": sold["vendor_fiscal_module"],
        "transaction_id": sold["transaction_id"],
    }
    if names_time:
        voids["happened_at"] = sold["happened_at"]
    void = receipt({**sold, "kind": "void", "transaction_id": "V1", "voids": voids})

    made = [*versions, void]
    events = [ChainEvent(one.event_id, one.happened_at, place) for place, one in enumerate(made)]
    # In the order in which they came, and the other way round.
    for some in (events, events[::-1]):
        assert effective_event_ids(some) == set()
    # Without it the last version alone counts.
    assert effective_event_ids(events[:-1]) == {versions[-1].event_id}
    # Before a rebuild the void of a sale takes its every part away.
    if kind == "sale":
        last = versions[-1]
        assert [getattr(last, part) + getattr(void, part) for part in PARTS] == [0] * len(PARTS)


@given(messages)
def test_void_that_names_no_receipt_lowers_revenue_by_what_its_lines_come_to(
    message: dict[str, Any],
) -> None:
    plain = {"training": False, "transaction_status": "finished"}
    sold = receipt({**message, **plain, "kind": "sale"})
    void = receipt({**message, **plain, "kind": "void", "transaction_id": "V1"})

    def revenue(one: CanonicalReceipt) -> int:
        return one.gross_minor - one.discounts_minor - one.returns_minor - one.voids_minor

    assert revenue(sold) + revenue(void) == 0
    assert sold.non_sales_minor + void.non_sales_minor == 0
