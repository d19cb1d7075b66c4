"""Shelves of a store that an evaluator evaluates: counted, sold from, filled, and rebuilt."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from alerting.rules.rule import Rule, Threshold
from runtime.registry.sources import FAMILIES
from tally.alerts.message import Alert
from tally.time.windows import window_start
from tests.support.evaluation.evaluating import DAY, Watched
from tests.support.questions.stock_world import counted, receipt, sales_rows, shelf
from tests.support.serving.serving_world import flip

INVENTORY, SALES = FAMILIES["inventory"], FAMILIES["sales"]
SOLD_OUT = Rule(
    rule_id="sold-out",
    kind="stock",
    metric="stock_on_hand",
    subject="item",
    evaluate="eager",
    condition=Threshold("<=", Decimal(0)),
    clear=Threshold(">=", Decimal(5)),
)
STORE = "367"
# What there is of each article on the evening before.
EVENING = {"milk": 10, "bread": 20}
EVENING_COUNT = "2026-11-23T17:15"


def open_shelves(one: Watched) -> Watched:
    """The store has sent for days, and counted its articles on the evening before."""
    for family in (INVENTORY, SALES):
        one.sends("2026-11-20", family)
    for article, amount in EVENING.items():
        row = shelf("2026-11-23T17:00", article, (0, counted(amount)), generation=None, seen=1)
        one.world.rows.append(row)
    look(one, "07:50")
    return one


def stock_up(one: Watched, articles: Sequence[str], amount: float) -> None:
    """These articles too were counted on the evening before, so much of each."""
    others = len(articles) - 1
    one.world.rows += [
        shelf(EVENING_COUNT, article, (60, counted(amount)), generation=None, seen=others)
        for article in articles
    ]


def look(one: Watched, time: str, through: str | None = None) -> list[Alert]:
    """A tick of both families at that time of DAY."""
    reached = None if through is None else f"{DAY}T{through}"
    return one.tick(f"{DAY}T{time}", reached, inventory=1)


def sell(one: Watched, time: str, number: int, **sold: int) -> list[Alert]:
    """A receipt that both its view and the receipts have, and the hint of it, at its time."""
    look(one, time)
    # By the clock of then: a hint of what has not begun waits for its time.
    made = receipt(f"{DAY}T{time}:00", number, STORE, **sold)
    one.world.receipts.append(made)
    one.world.rows += sales_rows([made], generation=None)
    return one.hint(window_start(made.happened_at).strftime("%FT%R"))


def deliver(one: Watched, start: str, article: str, *events: tuple[int, int]) -> list[Alert]:
    """Documents of an article in a window, as the speed layer has them, and the hint of them."""
    look(one, start)
    one.world.rows.append(shelf(f"{DAY}T{start}", article, *events, generation=None))
    return one.hint(f"{DAY}T{start}", INVENTORY)


def rebuild(one: Watched, *days: str, generation: int = 1) -> None:
    """All that the speed layer has, as a generation of both families has it."""
    for stored in [stored for stored in one.world.rows if stored.generation is None]:
        zeros = tuple(part.zero for part in stored.family.parts)
        row = stored.row._replace(excluded=zeros)
        one.world.rows.append(replace(stored, row=row, generation=generation))
    for day in days:
        for family in (INVENTORY, SALES):
            one.publish(flip(day, generation, f"{DAY}T23:50", pin=10), family)
