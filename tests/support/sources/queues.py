"""A family of two dimensions with a part of every kind, and metrics of it: for tests of what the
product's own sources do not have yet."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from runtime.registry.sources import FAMILIES
from schemas import loader
from schemas.metric import AnyMetric
from serving.questions import catalogue
from serving.storage.tables import ViewRow
from tally.algebra.parts import Count, Histogram, Max, Min, Sum, Uniques
from tally.families.family import Family
from tests.support.serving.serving_world import Stored, at

PARTS = (
    Sum("arrived", "persons"),
    Count("reports", "reports"),
    Min("shortest", "seconds"),
    Max("longest", "seconds"),
    Uniques("phones", "persons"),
    Histogram("waits", "seconds"),
)
QUEUES = Family("queues", axes=("queue", "desk"), parts=PARTS, epoch=1)
GRAINS = ["15m", "1h", "1d", "1w"]
VALUES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "arrivals": ("additive", {"sum": {"arrived": 1}}),
    "shortest_wait": ("minimum", {"min": "shortest"}),
    "longest_wait": ("maximum", {"max": "longest"}),
    "persons_seen": ("uniques", {"uniques": "phones"}),
    "median_wait": ("percentile", {"percentile": {"part": "waits", "share": 0.5}}),
    "arrivals_by_report": ("ratio", {"numerator": "arrivals", "denominator": "reports"}),
    "reports": ("additive", {"sum": {"reports": 1}}),
}


def entry(metric_id: str) -> AnyMetric:
    """The metric as its file would describe it."""
    kind, value = VALUES[metric_id]
    told = {
        **dict.fromkeys(("name", "formula", "meaning"), metric_id),
        **{"id": metric_id, "unit": "persons", "kind": kind, "families": ["queues"]},
        **{"value": value, "variants": [], "by": ["queue", "desk"], "grains": GRAINS},
    }
    made: AnyMetric = msgspec.convert(told, AnyMetric)
    return made


def know_queues(
    patched: pytest.MonkeyPatch,
    family: Family = QUEUES,
    entries: Sequence[AnyMetric] = (),
) -> None:
    """This process has the family and metrics of it, beside those of the product."""
    known = {**loader.topics(), "queues": {"kind": "canonical", "raw": "raw-queues"}}
    metrics = (*loader.metrics(), *(entries or map(entry, VALUES)))
    families = {**FAMILIES, "queues": family}
    patched.setattr(loader, "topics", lambda: known)
    patched.setattr(loader, "metrics", lambda: metrics)
    modules = ("questions.catalogue", "explain", "questions.known_stores", "storage.views")
    for module in modules:
        patched.setattr(f"serving.{module}.FAMILIES", families)
    patched.setattr(catalogue, "_metrics", catalogue._metrics.__wrapped__)


def queued(store: str, start: str, place: tuple[str, str], *brought: int, **more: Any) -> Stored:
    """A row of a queue and desk whose events brought these numbers to each part."""
    parts = tuple(part.fold([0] * len(brought), brought) for part in PARTS)
    generation = more.get("generation")
    excluded = () if generation is None else tuple(part.zero for part in PARTS)
    row = ViewRow(at(start), place, QUEUES.epoch, len(brought), parts, excluded)
    return Stored(QUEUES, store, row, generation)
