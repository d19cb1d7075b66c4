"""Each event moves stock once, by its first copy."""

from collections import Counter
from itertools import permutations

from inventory.movements.deduplication import EventDeduplicator
from tally.events.identity import version_id
from tests.unit.inventory.moved import AT, NOON, SALE, VOID


def test_an_event_of_two_lines_is_a_group_of_two_movements() -> None:
    milk, bread = EventDeduplicator().process_event(SALE, 5, NOON).movements

    assert (milk.movement_id, milk.delta_milli, milk.kind) == ("pos:367:1:0:7#1", -2000, "sale")
    assert (bread.movement_id, bread.delta_milli) == ("pos:367:1:0:7#3", 1000)
    assert [(one.index, one.of) for one in (milk, bread)] == [(1, 2), (2, 2)]
    assert {one.receipt for one in (milk, bread)} == {SALE.event_id}


def test_another_copy_moves_nothing_whatever_it_says() -> None:
    book = EventDeduplicator()
    first = book.process_event(SALE, 5, NOON)

    again = book.process_event(SALE, 6, NOON)
    other = book.process_event(SALE._replace(fingerprint="x", effects=SALE.effects[:1]), 7, NOON)

    assert first.stored is not None and first.stored.offset == 5
    assert [again, other] == [([], None), ([], None)]


def test_a_void_takes_back_each_movement_as_of_when_the_receipt_was_closed() -> None:
    book = EventDeduplicator()
    book.process_event(SALE, 5, NOON)

    taken = book.process_event(VOID, 6, NOON).movements

    assert [(one.item_id, one.delta_milli, one.kind) for one in taken] == [
        ("milk", 2000, "void"),
        ("bread", -1000, "void"),
    ]
    assert {one.happened_at for one in taken} == {AT}
    assert taken[0].movement_id == "void:pos:367:1:0:7#1"


def test_a_receipt_that_comes_behind_its_void_moves_nothing() -> None:
    book = EventDeduplicator()

    void, sale = book.process_event(VOID, 5, NOON), book.process_event(SALE, 6, NOON)

    assert (void.movements, sale.movements) == ([], [])
    assert void.stored is not None and sale.stored is not None


def test_a_second_void_of_a_receipt_moves_nothing() -> None:
    book = EventDeduplicator()
    for event in (SALE, VOID):
        book.process_event(event, 5, NOON)

    assert book.process_event(VOID._replace(fingerprint="other till"), 9, NOON).movements == []


REVISED = SALE._replace(
    event_id=version_id(SALE.event_id, 1), fingerprint="revised", effects=SALE.effects[:1]
)


def test_a_revision_takes_the_receipt_back_and_moves_its_own() -> None:
    book = EventDeduplicator()
    book.process_event(SALE, 5, NOON)

    moved = book.process_event(REVISED, 6, NOON).movements

    assert [(one.item_id, one.delta_milli, one.kind) for one in moved] == [
        ("milk", 2000, "void"),
        ("bread", -1000, "void"),
        ("milk", -2000, "sale"),
    ]
    assert len({one.movement_id for one in moved}) == 3
    assert [(one.index, one.of) for one in moved] == [(1, 3), (2, 3), (3, 3)]


def test_a_receipt_that_comes_behind_its_revision_moves_nothing() -> None:
    book = EventDeduplicator()

    revised, sale = book.process_event(REVISED, 5, NOON), book.process_event(SALE, 6, NOON)

    assert len(revised.movements) == 1
    assert sale.movements == [] and sale.stored is not None


def test_a_void_takes_back_the_version_that_counts() -> None:
    book = EventDeduplicator()
    for offset, event in enumerate((SALE, REVISED)):
        book.process_event(event, offset, NOON)

    taken = book.process_event(VOID, 7, NOON).movements

    assert [(one.item_id, one.delta_milli) for one in taken] == [("milk", 2000)]


def test_movements_of_any_order_come_to_the_same_stock() -> None:
    levels = set()
    for events in permutations([SALE, REVISED, VOID._replace(event_id=f"void:1:{SALE.event_id}")]):
        book = EventDeduplicator()
        moved = [
            one
            for place, event in enumerate(events)
            for one in book.process_event(event, place, NOON).movements
        ]
        totals = Counter[str]()
        for one in moved:
            totals[one.item_id] += one.delta_milli or 0
        levels.add((totals["milk"], totals["bread"]))

    assert levels == {(0, 0)}


def test_what_came_before_an_instant_is_forgotten_and_moves_again() -> None:
    book = EventDeduplicator()
    book.process_event(SALE, 5, NOON)
    book.process_event(SALE._replace(event_id="pos:367:1:0:8"), 6, NOON + 1)

    assert book.forget_before(NOON) == []
    assert book.forget_before(NOON + 1) == [SALE.event_id]
    assert book.forget_before(NOON + 1) == []
    # What comes later than it is kept for is another event to it: docs/stock-movements.md says so.
    assert len(book.process_event(SALE, 7, NOON + 2).movements) == 2


def test_a_restored_book_knows_what_the_first_knew() -> None:
    book, other = EventDeduplicator(), EventDeduplicator()
    seen = book.process_event(SALE, 5, NOON).stored
    assert seen is not None

    other.restore([(SALE.event_id, seen)])

    assert other.process_event(SALE, 6, NOON).stored is None
    assert other.process_event(VOID, 7, NOON) == book.process_event(VOID, 7, NOON)
