"""DuckDB SQL that computes each kind of part from a window's events.

The SQL follows the meaning of each part (docs/adr/014-parts-and-kinds.md) and uses no code of the
pipeline: only the names and the two limits come from tally/algebra/parts.py.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tally.algebra.keyed_sum import KeyedSpans, KeyedSum
from tally.algebra.level import Level
from tally.algebra.parts import Count, Histogram, Max, Min, Part, Sum, Uniques, Value
from tally.errors import TallyError
from tally.time.windows import WINDOW_SECONDS


class PartQuery(NamedTuple):
    """An aggregate over the events of a group, and the conversion of its result to a part value.

    `sql` gets the SQL of what an event adds to the part; `happened_at` is the event's instant.
    """

    sql: Callable[[str], str]
    value: Callable[[Any], Value]


def part_query(family: str, part: Part) -> PartQuery:
    """The query of a family's part.

    Raises TallyError, which names the part, for a kind that has none.
    """
    found = QUERIES.get(type(part))
    if found is None:
        raise TallyError(
            f"audit: {family}.{part.name}: no query computes a {type(part).__name__} from the"
            " master, so that the family cannot be audited"
        )
    return found


# 128 bits: the audit must not overflow at the bound that it is meant to detect.
def _number(brought: str) -> str:
    return f"CAST({brought} AS HUGEINT)"


def _bucket(brought: str) -> str:
    """SQL of the number with all bits below its five highest set to 0; 0 for a negative number.

    It uses the remainder and the binary digits, where the pipeline shifts.
    """
    size = f"greatest(CAST({brought} AS BIGINT), 0)"
    rest = f"greatest(length(bin({size})) - {Histogram.STEPS}, 0)"
    return f"({size} - {size} % (CAST(1 AS BIGINT) << {rest}))"


def _optional_integer(found: Any) -> Value:
    return None if found is None else int(found)


def _pairs(found: Any) -> Value:
    # Ascending, as a value is stored: equal counts are equal lists.
    return [[end, count] for end, count in sorted(found.items())]


def _shares(brought: str) -> str:
    """SQL of each number's key and amount, by division where the pipeline shifts."""
    number, step = f"CAST({brought} AS BIGINT)", KeyedSum.MAX_AMOUNT + 1
    amount = f"(({number} % {step} + {step}) % {step})"
    return f"list(ROW(({number} - {amount}) // {step}, {amount}))"


def _sums(found: Any) -> Value:
    sums: Counter[int] = Counter()
    for key, amount in found:
        sums[key] += amount
    return [[key, total] for key, total in sorted(sums.items()) if total]


def _spans_sql(brought: str) -> str:
    """SQL of each event's key, its first second within the window and its amount."""
    second = f"((epoch_ms(happened_at) // 1000 % {WINDOW_SECONDS}) + {WINDOW_SECONDS})"
    shares = _shares(brought).removeprefix("list(ROW(").removesuffix("))")
    key, _, amount = shares.rpartition(", (")
    return f"list(ROW({key}, {second} % {WINDOW_SECONDS}, ({amount}))"


def _merge_seconds(found: Any) -> Value:
    """The covered seconds by key, counted second by second where the pipeline joins ends."""
    seconds: dict[int, set[int]] = {}
    for key, first, amount in found:
        end = min(first + amount, WINDOW_SECONDS)
        seconds.setdefault(key, set()).update(range(first, end))
    value = []
    for key, covered in sorted(seconds.items()):
        begins = sorted(second for second in covered if second - 1 not in covered)
        ends = sorted(second + 1 for second in covered if second + 1 not in covered)
        value += [
            [key, KeyedSpans.encode_span(first, end - first)]
            for first, end in zip(begins, ends, strict=True)
        ]
    return value


def _events(brought: str) -> str:
    """SQL of each event's instant in milliseconds, whether it is a movement, and its number."""
    number = f"CAST({brought} AS BIGINT)"
    return f"list(ROW(epoch_ms(happened_at), {number} % 2 <> 0, {number}))"


def _since_last_count(found: Any) -> Value:
    # At the same instant a count sorts before movements, and a lower number before a higher one.
    events = sorted(found)
    last = 0
    for place, (_, is_movement, _) in enumerate(events):
        last = last if is_movement else place
    return [[at, number] for at, _, number in events[last:]]


QUERIES: Mapping[type[Part], PartQuery] = {
    Sum: PartQuery(lambda brought: f"sum({_number(brought)})", _optional_integer),
    Count: PartQuery(lambda _: "count(*)", _optional_integer),
    Min: PartQuery(lambda brought: f"min({_number(brought)})", _optional_integer),
    Max: PartQuery(lambda brought: f"max({_number(brought)})", _optional_integer),
    Uniques: PartQuery(
        lambda brought: (
            f"list_slice(list_sort(list(DISTINCT CAST({brought} AS BIGINT))), 1,"
            f" {Uniques.SKETCH_SIZE})"
        ),
        list,
    ),
    KeyedSum: PartQuery(_shares, _sums),
    KeyedSpans: PartQuery(_spans_sql, _merge_seconds),
    Level: PartQuery(_events, _since_last_count),
    Histogram: PartQuery(lambda brought: f"histogram({_bucket(brought)})", _pairs),
}
