"""A change of what the layers compute, or of a view's columns, needs a higher epoch
(tally/families.py)."""

import json
from pathlib import Path
from typing import Any

import pytest

from tally.definition import definition_digest
from tally.families import FAMILIES, SALES, Family

ROOT = Path(__file__).parents[3]
VIEWS = ROOT / "schemas" / "views"
RECORDED = VIEWS / "definitions.json"
SOURCES = (
    "tally/frames.py",
    "speed_layer/records.py",
    "speed_layer/prefix.py",
    "speed_layer/window.py",
)
TRANSFORMS = tuple((ROOT / source).read_text("utf-8") for source in SOURCES)


def recorded() -> dict[str, Any]:
    """The file's content."""
    content: dict[str, Any] = json.loads(RECORDED.read_text("utf-8"))
    return content


def digest_of(family: Family, transforms: tuple[str, ...] = TRANSFORMS) -> str:
    """The digest of a family as the code is now."""
    return definition_digest(family, transforms, (VIEWS / f"{family.name}.cql").read_text("utf-8"))


def finding(family: Family, digest: str, kept: dict[str, Any]) -> str:
    """What is wrong with one family's definition, and what to do; "" if nothing."""
    now = {"epoch": family.epoch, "digest": digest}
    if now == kept:
        return ""
    raised = (
        ""
        if family.epoch > kept["epoch"]
        else f"raise its epoch in tally/families.py to {kept['epoch'] + 1} if a number can change, "
    )
    return (
        f"{family.name} is computed in another way than recorded: {raised}then record in"
        f" {RECORDED.name}: {json.dumps(now)}"
    )


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
def test_definition_is_the_recorded_one(family: Family) -> None:
    assert finding(family, digest_of(family), recorded()[family.name]) == ""


def test_changed_computation_without_a_higher_epoch_is_found() -> None:
    ascending, descending = 'F.sort_array("members")', 'F.sort_array("members", asc=False)'
    changed = tuple(text.replace(ascending, descending) for text in TRANSFORMS)

    found = finding(SALES, digest_of(SALES, changed), recorded()["sales"])

    assert changed != TRANSFORMS
    assert "raise its epoch in tally/families.py" in found


@pytest.mark.parametrize("number", range(len(SOURCES)), ids=SOURCES)
def test_comment_and_docstrings_do_not_change_the_definition(number: int) -> None:
    remarked = '# A remark.\n"""Other words, ' + TRANSFORMS[number].removeprefix('"""')
    inside = remarked.replace('    """The ', '    """In other words, the ')
    commented = (*TRANSFORMS[:number], inside, *TRANSFORMS[number + 1 :])

    assert inside != TRANSFORMS[number]
    assert digest_of(SALES, commented) == digest_of(SALES)
