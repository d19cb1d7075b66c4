"""The page of metrics, generated from the catalogue in schemas/metrics."""

import json
from collections.abc import Iterable, Sequence

from ops.docs.markdown import codes, table
from schemas import loader
from schemas.metric import MetricShape
from tally.algebra.parts import Histogram, Uniques

HEADING = f"""# Metrics

Made from `schemas/metrics/` by `python -m ops.docs`; do not edit.

`GET /v1/metrics` lists the same, `GET /v1/metrics/{{metric_id}}` answers
([the HTTP API](api.md)). A ratio is computed from the sums of the whole stretch of time, never as
a mean of ratios; where its denominator is 0 it has no value. A minimum, a maximum or a percentile
of no events has none either, and no events are 0 uniques. A level is that at the end of the
stretch, of all since the store's day began
([persons inside](../people-counters.md#persons-inside)); a stock begins again with a count alone
([what there is](../inventory.md#what-to-ask)).

Uniques are exact below {Uniques.SKETCH_SIZE:,} and an estimate above; a percentile is the lower end
of a bucket, which is exact below {2**Histogram.STEPS}. `error` says how far a value may be off,
beside each metric in words and beside each value of one of these two kinds as a share of it.
"""
ColumnNames = Sequence[str]
_MEANING_FIELDS = ("id", "name", "unit", "formula", "meaning")
_QUERY_FIELDS = ("id", "kind", "families", "by", "grains", "variants")


def metrics_page() -> str:
    """The page as Markdown: the metrics, how each is queried, and the meaning of the columns."""
    entries, columns = loader.metrics(), _columns()
    return "\n".join(
        [
            HEADING,
            *_section("What each says", _MEANING_FIELDS, entries),
            *_section("How each is asked", _QUERY_FIELDS, entries),
            "## What the columns say\n",
            table(("column", "meaning"), ((f"`{name}`", columns[name]) for name in columns)),
        ]
    )


def _section(title: str, names: ColumnNames, entries: Iterable[MetricShape]) -> list[str]:
    rows = ([_cell(name, getattr(entry, name)) for name in names] for entry in entries)
    return [f"## {title}\n", table(names, rows)]


def _cell(name: str, value: str | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return codes(value)
    return f"`{value}`" if name in ("id", "unit") else value


def _columns() -> dict[str, str]:
    """The meaning of each column, in the order of the tables."""
    shape = json.loads((loader.FOLDER / "metrics.schema.json").read_text("utf-8"))["properties"]
    names = dict.fromkeys((*_MEANING_FIELDS, *_QUERY_FIELDS))
    return {name: shape[name]["x-meaning"] for name in names}
