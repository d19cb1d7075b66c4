"""Wrong on purpose: ways to say up to when everything has been read, each of which says too much.

They touch nothing but their arguments."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from alerting.watermark.watermark import (
    FamilyWatermarks,
    PipelineSnapshot,
    Watermark,
    advance,
    probe_pipeline,
)
from tally.alerts.tick import Tick, merge_ticks


def looked_from_the_end(
    pipeline: Any, families: Sequence[str], at: int
) -> dict[str, PipelineSnapshot]:
    """Against the way of the records: one slips past between two questions."""
    stable, reached = pipeline.stable_ends(), pipeline.speed_positions()
    written, positions = pipeline.canonical_ends(), pipeline.positions()
    raw_ends = pipeline.raw_ends()
    told = (raw_ends, positions, written, reached, stable)
    return {name: PipelineSnapshot(at, *(one.get(name, {}) for one in told)) for name in families}


def looked_by_the_clock(
    pipeline: Any, families: Sequence[str], at: int
) -> dict[str, PipelineSnapshot]:
    """By the instant of after the look."""
    looks = probe_pipeline(pipeline, families, at)
    return {name: replace(look, at=pipeline.now) for name, look in looks.items()}


def looked_past_transactions(
    pipeline: Any, families: Sequence[str], at: int
) -> dict[str, PipelineSnapshot]:
    """By the ends that readers of committed records are told."""
    raw_ends, positions = pipeline.raw_ends(), pipeline.positions()
    written, reached, stable = (
        pipeline.stable_ends(),
        pipeline.speed_positions(),
        pipeline.stable_ends(),
    )
    told = (raw_ends, positions, written, reached, stable)
    return {name: PipelineSnapshot(at, *(one.get(name, {}) for one in told)) for name in families}


def walked_by_earlier_ends(walk: FamilyWatermarks, look: PipelineSnapshot) -> FamilyWatermarks:
    """Without the wait for the normaliser: what it holds is in no topic's end yet."""
    return advance(walk, replace(look, positions=look.raw_ends))


def walked_where_silence_is_an_answer(
    walk: FamilyWatermarks, look: PipelineSnapshot
) -> FamilyWatermarks:
    """Who says nothing of a partition has nothing in it."""
    ends = {number: look.raw_ends.get(number, 0) for number in (0, 1)}
    reached = {number: look.positions.get(number, ends[number]) for number in ends}
    return advance(walk, replace(look, raw_ends=ends, positions=reached))


def walked_over_epochs(walk: FamilyWatermarks, look: PipelineSnapshot) -> FamilyWatermarks:
    """What was read by an earlier definition counts for the next one."""
    after = advance(walk, look)
    said = {
        number: Watermark(one.epoch, max(one.through or 0, before.through or 0))
        if (before := walk.watermarks.get(number))
        else one
        for number, one in after.watermarks.items()
    }
    return replace(after, watermarks=said)


def merged_field_by_field(one: Tick, other: Tick) -> Tick:
    """The later instant and the higher epoch, whoever said them."""
    both = merge_ticks(one, other)
    latest = {
        name: max(one.through.get(name, 0), other.through.get(name, 0))
        for name in {*one.through, *other.through}
    }
    return Tick(
        **{name: getattr(both, name) for name in Tick.__struct_fields__} | {"through": latest}
    )
