"""DuckDB SQL that decides which events of the master count, and computes each kind of part.

It follows docs/adr/014-parts-and-kinds.md and docs/adr/026-revisions.md and uses no code of the
pipeline: only names and two limits come from tally/algebra/parts.py.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tally.algebra import parts
from tally.algebra.level import Level
from tally.errors import TallyError
from tally.events.identity import REVERSAL
from tally.time.windows import WINDOW_SECONDS


class PartQuery(NamedTuple):
    """An aggregate over the events of a group, and the conversion of its result to a part value.

    `sql` gets the SQL of what an event adds to the part; `happened_at` is the event's instant.
    """

    sql: Callable[[str], str]
    value: Callable[[Any], parts.Value]


def part_query(family: str, part: parts.Part) -> PartQuery:
    """The query of a family's part. Raises TallyError, with its name, for a kind without one."""
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
    """SQL of the number without all but its five highest bits, by remainder where others shift."""
    size = f"greatest(CAST({brought} AS BIGINT), 0)"
    rest = f"greatest(length(bin({size})) - {parts.Histogram.STEPS}, 0)"
    return f"({size} - {size} % (CAST(1 AS BIGINT) << {rest}))"


def _least(brought: str) -> str:
    distinct = f"list(DISTINCT CAST({brought} AS BIGINT))"
    return f"list_slice(list_sort({distinct}), 1, {parts.Uniques.SKETCH_SIZE})"


def _optional_integer(found: Any) -> parts.Value:
    return None if found is None else int(found)


def _key_and_amount(brought: str) -> tuple[str, str]:
    """SQL of a number's key, and of its amount, by division where the pipeline shifts."""
    number, step = f"CAST({brought} AS BIGINT)", parts.KeyedSum.MAX_AMOUNT + 1
    amount = f"(({number} % {step} + {step}) % {step})"
    return f"({number} - {amount}) // {step}", amount


def _shares(brought: str) -> str:
    return f"list(ROW({', '.join(_key_and_amount(brought))}))"


def _sums(found: Any) -> parts.Value:
    sums: Counter[int] = Counter()
    for key, amount in found:
        sums[key] += amount
    return [[key, total] for key, total in sorted(sums.items()) if total]


def _spans(brought: str) -> str:
    """SQL of each event's key, its first second within the window and its amount."""
    key, amount = _key_and_amount(brought)
    second = f"((epoch_ms(happened_at) // 1000 % {WINDOW_SECONDS}) + {WINDOW_SECONDS})"
    return f"list(ROW({key}, {second} % {WINDOW_SECONDS}, {amount}))"


def _merge_seconds(found: Any) -> parts.Value:
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
            [key, parts.KeyedSpans.encode_span(first, end - first)]
            for first, end in zip(begins, ends, strict=True)
        ]
    return value


def _events(brought: str) -> str:
    """SQL of each event's instant in milliseconds, whether it is a movement, and its number."""
    number = f"CAST({brought} AS BIGINT)"
    return f"list(ROW(epoch_ms(happened_at), {number} % 2 <> 0, {number}))"


def _since_last_count(found: Any) -> parts.Value:
    # At the same instant a count sorts before movements, and a lower number before a higher one.
    events = sorted(found)
    last = 0
    for place, (_, is_movement, _) in enumerate(events):
        last = last if is_movement else place
    return [[at, number] for at, _, number in events[last:]]


QUERIES: Mapping[type[parts.Part], PartQuery] = {
    parts.Sum: PartQuery(lambda brought: f"sum({_number(brought)})", _optional_integer),
    parts.Count: PartQuery(lambda _: "count(*)", _optional_integer),
    parts.Min: PartQuery(lambda brought: f"min({_number(brought)})", _optional_integer),
    parts.Max: PartQuery(lambda brought: f"max({_number(brought)})", _optional_integer),
    parts.Uniques: PartQuery(_least, list),
    parts.KeyedSum: PartQuery(_shares, _sums),
    parts.KeyedSpans: PartQuery(_spans, _merge_seconds),
    Level: PartQuery(_events, _since_last_count),
    parts.Histogram: PartQuery(
        lambda brought: f"histogram({_bucket(brought)})",
        # Ascending, as a value is stored: equal counts are equal lists.
        lambda found: [[end, count] for end, count in sorted(found.items())],
    ),
}


_PREFIX = "^(?:void:(?:[0-9]+:)?|version:(?:[0-9]+|[+-][0-9a-f]{32}):)"


def _escape(column: str) -> str:
    # As identities do.
    return f"replace(replace({column}, '%', '%25'), ':', '%3A')"


# The first copy by offset wins; the same fingerprint again is a duplicate, another one is a
# conflict; a record without an identity is unreadable. All shares of an interval have the
# fingerprint and the fate of the interval.
COPIES = r"""
    WITH copies AS (
        SELECT *, first_value(fingerprint) OVER whole AS kept, row_number() OVER identity AS copy
        FROM (SELECT DISTINCT ON ("partition", "offset") *,
                     regexp_replace(event_id, '([.][0-9]{3}Z):[1-9]$', '\1') AS interval_id
              FROM master WHERE source = ?)
        WINDOW identity AS (PARTITION BY store_id, event_id ORDER BY "offset"),
               whole AS (PARTITION BY store_id, interval_id ORDER BY "offset"))
"""
# One matching digest of the two is enough; and a receipt is reversed once, by any number of voids.
IS_AGAIN = f"""(split_part(fingerprint, '.', 1) = split_part(kept, '.', 1)
    OR (contains(fingerprint, '.')
        AND split_part(fingerprint, '.', 2) = split_part(kept, '.', 2))
    OR starts_with(event_id, '{REVERSAL}'))"""
# The last event of a receipt decides: a version counts alone, and after a void nothing counts. A
# generation considers the events that it has seen (docs/adr/026-revisions.md).
VALUED = rf"""{COPIES},
    events AS (
        SELECT *, starts_with(event_id, '{REVERSAL}') AS is_void,
               regexp_extract(event_id, '^(?:void|version):([0-9]+):', 1) AS number,
               regexp_extract(event_id, '^version:([+-])', 1) AS sign,
               regexp_replace(event_id, '{_PREFIX}', '') AS named,
               regexp_replace(regexp_replace(event_id, '{_PREFIX}', ''),
                              ':0+([0-9]+)$', ':\1') AS loose
        FROM copies WHERE copy = 1 AND event_id IS NOT NULL AND {IS_AGAIN}),
    alike AS (SELECT store_id, loose, min(named) AS receipt, list(DISTINCT named) AS names
              FROM events WHERE NOT is_void GROUP BY ALL),
    wanted AS (SELECT store_id, named, min(event_date) - 31 AS since, max(event_date) + 1 AS until
               FROM events WHERE is_void AND starts_with(named, 'reference:') GROUP BY ALL),
    called AS (
        SELECT store_id, named AS receipt, event_date,
               unnest([json_extract_string(value, '$.reference'),
                       json_extract_string(value, '$.transaction_id')]) AS name
        FROM events WHERE NOT is_void AND store_id IN (SELECT store_id FROM wanted)),
    referred AS (
        SELECT wanted.store_id, wanted.named, min(receipt) AS receipt
        FROM wanted JOIN called ON wanted.store_id = called.store_id
            AND wanted.named = 'reference:' || {_escape("called.store_id")}
                               || ':' || {_escape("called.name")}
            AND called.event_date BETWEEN since AND until
        GROUP BY ALL HAVING count(DISTINCT receipt) = 1),
    chained AS (
        SELECT events.*, CASE
            WHEN NOT is_void OR list_contains(names, events.named) THEN events.named
            WHEN len(names) = 1 THEN alike.receipt
            ELSE coalesce(referred.receipt, events.named) END AS chain
        FROM events LEFT JOIN alike USING (store_id, loose)
        LEFT JOIN referred ON events.store_id = referred.store_id
            AND events.named = referred.named),
    ranked AS (
        SELECT *, min("offset") OVER (
                   PARTITION BY store_id, chain
                   ORDER BY CASE WHEN number <> '' THEN CAST(number AS BIGINT)
                                 WHEN is_void THEN {2**31} ELSE 0 END DESC,
                            is_void DESC, happened_at DESC,
                            CASE sign WHEN '+' THEN 1 WHEN '-' THEN 2 ELSE 0 END DESC,
                            "offset" DESC
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS beaten_at,
               CASE WHEN sign <> '-' THEN min("offset") FILTER (sign = '-') OVER (
                   PARTITION BY store_id, chain ORDER BY happened_at DESC
                   RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) END AS cancelled_at,
               least(beaten_at, cancelled_at) AS reversed_at,
               bool_or(NOT is_void) OVER (PARTITION BY store_id, chain) AS has_receipt
        FROM chained),
    valued AS (SELECT * FROM ranked WHERE NOT is_void)
"""
# Voids whose receipt has not arrived.
WAITING = (
    f"{VALUED} SELECT store_id, event_id, event_date FROM ranked WHERE is_void AND NOT has_receipt"
    " ORDER BY ALL"
)
