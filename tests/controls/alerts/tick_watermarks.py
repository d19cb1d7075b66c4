"""Wrong on purpose: watermarks that claim more than has been read.

They touch nothing but their arguments."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from alerting.watermark.pipeline import probe_pipeline
from alerting.watermark.watermark import (
    FamilyWatermarks,
    PipelineSnapshot,
    Watermark,
    advance,
)
from tally.alerts.tick import Tick, merge_ticks


def probe_from_the_end(
    pipeline: Any, families: Sequence[str], at: int
) -> dict[str, PipelineSnapshot]:
    """Read the pipeline downstream first: a record that moves between two reads is missed."""
    stable, reached = pipeline.stable_ends(), pipeline.speed_positions()
    written, positions = pipeline.canonical_ends(), pipeline.positions()
    raw_ends = pipeline.raw_ends()
    offsets = (raw_ends, positions, written, reached, stable)
    return {
        name: PipelineSnapshot(at, *(by_family.get(name, {}) for by_family in offsets))
        for name in families
    }


def probe_by_the_clock(
    pipeline: Any, families: Sequence[str], at: int
) -> dict[str, PipelineSnapshot]:
    """Take the instant after the probe instead of the one before it."""
    snapshots = probe_pipeline(pipeline, families, at)
    return {name: replace(snapshot, at=pipeline.now) for name, snapshot in snapshots.items()}


def probe_past_transactions(
    pipeline: Any, families: Sequence[str], at: int
) -> dict[str, PipelineSnapshot]:
    """Use the ends of committed records, which leave out open transactions."""
    raw_ends, positions = pipeline.raw_ends(), pipeline.positions()
    written, reached, stable = (
        pipeline.stable_ends(),
        pipeline.speed_positions(),
        pipeline.stable_ends(),
    )
    offsets = (raw_ends, positions, written, reached, stable)
    return {
        name: PipelineSnapshot(at, *(by_family.get(name, {}) for by_family in offsets))
        for name in families
    }


def advance_by_earlier_ends(
    earlier: FamilyWatermarks, snapshot: PipelineSnapshot
) -> FamilyWatermarks:
    """Do not wait for the normaliser, although what it holds is in no topic yet."""
    return advance(earlier, replace(snapshot, positions=snapshot.raw_ends))


def advance_where_silence_answers(
    earlier: FamilyWatermarks, snapshot: PipelineSnapshot
) -> FamilyWatermarks:
    """Treat a partition without an answer as empty."""
    ends = {number: snapshot.raw_ends.get(number, 0) for number in (0, 1)}
    reached = {number: snapshot.positions.get(number, ends[number]) for number in ends}
    return advance(earlier, replace(snapshot, raw_ends=ends, positions=reached))


def advance_over_epochs(earlier: FamilyWatermarks, snapshot: PipelineSnapshot) -> FamilyWatermarks:
    """Count what an earlier definition has read for the next one."""
    after = advance(earlier, snapshot)
    watermarks = {
        number: Watermark(new.epoch, max(new.through or 0, before.through or 0))
        if (before := earlier.watermarks.get(number))
        else new
        for number, new in after.watermarks.items()
    }
    return replace(after, watermarks=watermarks)


def merge_field_by_field(first: Tick, second: Tick) -> Tick:
    """Merge the later instant and the higher epoch, even if they come from two ticks."""
    both = merge_ticks(first, second)
    latest = {
        name: max(first.through.get(name, 0), second.through.get(name, 0))
        for name in {*first.through, *second.through}
    }
    return Tick(
        **{name: getattr(both, name) for name in Tick.__struct_fields__} | {"through": latest}
    )
