"""SQL that decides which events of the master count, independent of the pipeline's code."""

from tally.events.identity import REVERSAL

_PREFIX = "^(?:void:(?:[0-9]+:)?|version:(?:[0-9]+|[+-][0-9a-f]{32}):)"


def _escape(column: str) -> str:
    """SQL that escapes a part of an identity as identities do."""
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
