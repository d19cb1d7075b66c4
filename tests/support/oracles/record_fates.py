"""The fate of every record of a family, in plain Python from its header: the rules of
batch_layer/views/compute/classification.py and chains.py once more."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from batch_layer.links.header import RecordHeader, strip_zeros
from tally.events.identity import CONTENT, REFERENCE, REVERSAL, SHARE
from tally.events.receipt_rules import ChainEvent, rank

WINDOW_MICROS = 900 * 10**6
DAYS_BEFORE, DAYS_AFTER = 31, 1
Place = tuple[int, int]
Identity = tuple[str, str]


class Fate(NamedTuple):
    """What classify_records() says of a record; reversed_by: the place of a record."""

    fate: str
    first_day: int
    elsewhere: bool
    taken_back: bool
    reversed_by: Place | None
    waiting: bool


class Verdict(NamedTuple):
    """What chain_verdicts() says of the first copy of an event."""

    beaten_by: Place | None
    is_void: bool
    has_receipt: bool


def fates(records: Iterable[RecordHeader]) -> dict[Place, Fate]:
    """The fate of each record, by its place."""
    ordered = sorted(records, key=lambda record: record.offset)
    firsts: dict[Identity, RecordHeader] = {}
    intervals: dict[Identity, RecordHeader] = {}
    for record in ordered:
        firsts.setdefault((record.store_id, record.event_id), record)
        intervals.setdefault((record.store_id, interval(record.event_id)), record)
    verdicts = judge_chains([*firsts.values()])
    return {
        record.place: fate_of(
            record,
            firsts[record.store_id, record.event_id],
            intervals[record.store_id, interval(record.event_id)],
            verdicts,
        )
        for record in ordered
    }


def interval(event_id: str) -> str:
    return re.sub(SHARE, r"\1", event_id)


def fate_of(
    record: RecordHeader,
    first: RecordHeader,
    of_interval: RecordHeader,
    verdicts: Mapping[Place, Verdict],
) -> Fate:
    is_void, is_first = record.event_id.startswith(REVERSAL), record is first
    is_again = same_content(record.fingerprint, of_interval.fingerprint)
    if is_again and is_first:
        fate = "counted"
    else:
        fate = "duplicate" if is_again or is_void else "conflict"
    verdict = verdicts.get(record.place, Verdict(None, False, True))
    is_version = fate == "counted" and not verdict.is_void
    beaten = verdict.beaten_by
    is_elsewhere = record.happened_at // WINDOW_MICROS != first.happened_at // WINDOW_MICROS
    return Fate(
        fate,
        first.day,
        is_elsewhere or (is_first and fate == "conflict"),
        fate == "counted" and (verdict.is_void or beaten is not None),
        beaten if is_version else None,
        fate == "counted" and verdict.is_void and not verdict.has_receipt,
    )


def same_content(one: str, other: str) -> bool:
    (whole, *content), (other_whole, *other_content) = one.split(CONTENT), other.split(CONTENT)
    return whole == other_whole or bool(content and content == other_content)


def judge_chains(firsts: list[RecordHeader]) -> dict[Place, Verdict]:
    """By the place of the first copy of each event."""
    chains: dict[Identity, list[RecordHeader]] = defaultdict(list)
    for record, name in resolve_chains(firsts).items():
        chains[record.store_id, name].append(record)
    verdicts = {}
    for chain in chains.values():
        has_receipt = any(not record.position.is_void for record in chain)
        for record in chain:
            beating = beaten_by(record, chain)
            verdicts[record.place] = Verdict(beating, record.position.is_void, has_receipt)
    return verdicts


def beaten_by(record: RecordHeader, chain: list[RecordHeader]) -> Place | None:
    """The earliest of those behind it, and of those that cancel it."""
    behind = [other for other in chain if order(other) > order(record)]
    if not record.position.is_void and not record.position.is_cancellation:
        behind += [
            other
            for other in chain
            if other.position.is_cancellation and other.happened_at >= record.happened_at
        ]
    return min((other.place for other in behind), key=lambda place: place[1], default=None)


def order(record: RecordHeader) -> tuple[int, bool, str, int, int]:
    return rank(ChainEvent(record.event_id, f"{record.happened_at:020}", record.offset))


def resolve_chains(firsts: list[RecordHeader]) -> dict[RecordHeader, str]:
    """The receipt that each event belongs to; of a void the one that it means."""
    receipts: dict[Identity, set[str]] = defaultdict(set)
    for record in firsts:
        if not record.position.is_void:
            chain = record.position.chain
            receipts[record.store_id, strip_zeros(chain)].add(chain)
    return {record: meant(record, receipts, firsts) for record in firsts}


def meant(
    record: RecordHeader, receipts: Mapping[Identity, set[str]], firsts: list[RecordHeader]
) -> str:
    chain = record.position.chain
    if not record.position.is_void:
        return chain
    alike = receipts.get((record.store_id, strip_zeros(chain)), set())
    if chain not in alike and len(alike) == 1:
        return next(iter(alike))
    called = called_receipts(record.store_id, chain, firsts) if is_reference(chain) else set()
    return next(iter(called)) if len(called) == 1 and chain not in alike else chain


def is_reference(chain: str) -> bool:
    return chain.startswith(f"{REFERENCE}:")


def called_receipts(store_id: str, name: str, firsts: list[RecordHeader]) -> set[str]:
    """The receipts that bear the name, near its voids."""
    of_store = [record for record in firsts if record.store_id == store_id]
    days = [record.day for record in of_store if is_void_of(record, name)]
    return {
        record.position.chain
        for record in of_store
        if name in record.called and min(days) - DAYS_BEFORE <= record.day <= max(days) + DAYS_AFTER
    }


def is_void_of(record: RecordHeader, name: str) -> bool:
    return record.position.is_void and record.position.chain == name
