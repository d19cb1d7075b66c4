"""Which messages receipts call for, told by SQL over the receipts: nothing of the product's code is
asked, not even what an alert is called."""

from collections.abc import Iterable
from datetime import datetime

import duckdb

from tests.support.alerts.alert_receipts import HIGH, LOW, SentReceipt

# By the alert's id and state.
AlertMessages = set[tuple[str, str]]

_EPISODES = """
CREATE OR REPLACE TEMP VIEW counts AS
SELECT layer, store, number, count(DISTINCT receipt) FILTER (is_seen) AS sold
FROM (SELECT 'speed' AS layer, store, number, receipt, is_in_time AS is_seen FROM receipts
      UNION ALL
      SELECT 'batch', store, number, receipt, is_standing FROM receipts
      UNION ALL
      SELECT layer, store, number, NULL, false
      FROM (VALUES ('speed'), ('batch')) AS layers(layer),
           (SELECT DISTINCT store FROM receipts) AS stores,
           range((SELECT min(number) FROM receipts), (SELECT max(number) + 1 FROM receipts))
               AS numbers(number))
GROUP BY ALL;

-- Of a quarter hour without a receipt the speed layer knows nothing; for batch it is a zero.
CREATE OR REPLACE TEMP VIEW verdicts AS
SELECT rule, layer, store, number,
       CASE WHEN rule = 'silent' THEN sold = 0
            WHEN sold >= {high} THEN true
            WHEN sold <= {low} AND (sold > 0 OR layer = 'batch') THEN false END AS raises
FROM counts, (VALUES ('rush'), ('busy'), ('silent')) AS rules(rule);

CREATE OR REPLACE TEMP VIEW episodes AS
WITH standing AS (
    SELECT *, last_value(raises IGNORE NULLS) OVER up AS is_on FROM verdicts
    WINDOW up AS (PARTITION BY rule, layer, store ORDER BY number)
), turns AS (
    SELECT *, lag(is_on, 1, false) OVER up AS was_on FROM standing
    WINDOW up AS (PARTITION BY rule, layer, store ORDER BY number)
)
SELECT rule, layer, store, number AS begins, lead(number) OVER up AS ends, is_on
FROM turns WHERE is_on <> was_on
WINDOW up AS (PARTITION BY rule, layer, store ORDER BY number)
QUALIFY is_on;
"""
_TOLD = """
WITH wanted AS (SELECT * FROM episodes WHERE layer = 'batch'),
told AS (SELECT * FROM episodes WHERE layer = 'speed' AND {told_in_time}),
inside AS (
    SELECT told.rule, told.store, told.begins, wanted.begins AS wanted_begins,
           row_number() OVER (PARTITION BY told.rule, told.store, wanted.begins
                              ORDER BY told.begins) AS place
    FROM told JOIN wanted ON told.rule = wanted.rule AND told.store = wanted.store
         AND wanted.begins <= told.begins AND told.begins < wanted.ends
), fates AS (
    SELECT told.*, coalesce(inside.place, 0) = 1 AS stays
    FROM told LEFT JOIN inside USING (rule, store, begins)
), fresh AS (
    SELECT * FROM wanted
    ANTI JOIN inside ON wanted.rule = inside.rule AND wanted.store = inside.store
         AND wanted.begins = inside.wanted_begins
), states(rule, store, edge, number, state, is_fresh) AS (
    SELECT rule, store, '', begins, 'provisional', false FROM told UNION ALL
    SELECT rule, store, '|clear', ends, 'provisional', false FROM told UNION ALL
    SELECT rule, store, '', begins, if(stays, 'confirmed', 'retracted'), false FROM fates UNION ALL
    SELECT rule, store, '|clear', ends, if(stays, 'confirmed', 'retracted'), false FROM fates
    UNION ALL
    SELECT rule, store, '', begins, 'confirmed', true FROM fresh UNION ALL
    SELECT rule, store, '|clear', ends, 'confirmed', true FROM fresh
), named AS (
    SELECT *, strftime(make_timestamp({first} * 1000 + number * 900000000),
                       '%Y-%m-%dT%H:%M:%SZ') AS begun,
           -- What has its name by an alert before it is the second of that name.
           if(is_fresh AND bool_or(NOT is_fresh)
              OVER (PARTITION BY rule, store, edge, number), '|2', '') AS occurrence
    FROM states
)
SELECT sha256(concat(rule, '|1|', store, '|none|', begun, edge, occurrence)), state, number
FROM named
"""


def messages(
    receipts: Iterable[SentReceipt], first: datetime, *, told_in_time: bool = True
) -> AlertMessages:
    """Every message of the rules in alert_receipts.py, once a rebuild has confirmed all of them.

    `first`: when the first quarter hour begins. `told_in_time`: each was evaluated by what came in
    time before any rebuild, so that all the speed layer's alerts were told; else none of them was.
    """
    with duckdb.connect() as database:
        database.execute(
            "CREATE TEMP TABLE receipts (store VARCHAR, number BIGINT, receipt BIGINT,"
            " is_in_time BOOLEAN, is_standing BOOLEAN)"
        )
        database.executemany("INSERT INTO receipts VALUES (?, ?, ?, ?, ?)", [*receipts])
        database.execute(_EPISODES.format(high=HIGH, low=LOW))
        millis = round(first.timestamp() * 1000)
        told = database.execute(_TOLD.format(told_in_time=told_in_time, first=millis)).fetchall()
    return {(alert_id, state) for alert_id, state, _ in told}


def provisional(of: AlertMessages) -> AlertMessages:
    """Those of them that are told before any rebuild."""
    return {one for one in of if one[1] == "provisional"}
