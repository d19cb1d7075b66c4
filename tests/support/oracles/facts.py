"""What is compared of two recordings: facts, each of a kind, with a key and a value as text."""

import hashlib
import json
from pathlib import Path
from typing import Any

# Instants of the run and its Kafka offsets, which count markers of transactions too; each stays as
# the kind of thing that it is.
VOLATILE = {
    *("flipped_at", "through", "covered_until", "master_behind_since", "received_at"),
    *("committed_at", "recorded_at", "current_at", "declared_at", "noted_at", "first_seen"),
    *("offsets", "speed_offsets", "pinned", "master_until", "until", "watermark", "source_offset"),
    *("run", "micro_batch", "flip_token", "last_token", "table_version", "committed", "master"),
    *("sha256", "seconds"),
}
KEPT_BYTES = 3_000

Fact = tuple[str, str, str]


def stable(value: Any) -> Any:
    """The value with what is volatile in it replaced by its type."""
    if isinstance(value, dict):
        return {
            name: type(one).__name__ if name in VOLATILE else stable(one)
            for name, one in value.items()
        }
    return [stable(one) for one in value] if isinstance(value, list | tuple) else value


def fact(kind: str, key: str, value: Any) -> Fact:
    """A fact, its value as text; of a long one its digest."""
    text = json.dumps(stable(value), sort_keys=True, default=str)
    return (
        kind,
        key,
        (
            text
            if len(text) <= KEPT_BYTES
            else f"{text[:KEPT_BYTES]}… {hashlib.sha256(text.encode()).hexdigest()}"
        ),
    )


def compare(one: Path, other: Path) -> int:
    """How many facts differ, told by kind with the first of each."""
    sides: list[dict[tuple[str, str], str]] = []
    for file in (one, other):
        lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        sides.append({(kind, key): value for kind, key, value in lines})
    differing = 0
    kinds = sorted({kind for side in sides for kind, _ in side})
    for kind in kinds:
        keys = sorted({key for side in sides for other_kind, key in side if other_kind == kind})
        wrong = [key for key in keys if sides[0].get((kind, key)) != sides[1].get((kind, key))]
        differing += len(wrong)
        print(f"{kind}: {len(keys):,} compared, {len(wrong):,} differ")
        for key in wrong[:3]:
            print(
                f"  {key}\n    {_shown(sides[0].get((kind, key)))}\n   "
                f" {_shown(sides[1].get((kind, key)))}"
            )
    print(f"{sum(len(side) for side in sides) // 2:,} facts, {differing:,} differ")
    return differing


def _shown(value: str | None) -> str:
    return "is not there" if value is None else value[:600]
