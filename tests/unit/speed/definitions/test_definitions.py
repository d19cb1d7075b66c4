"""A change of what the layers compute, or of a view's columns, needs a higher epoch
(tally/families/family.py)."""

import ast
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import pytest

from runtime.process.files import REPOSITORY
from runtime.registry.sources import FAMILIES, SALES, TRAFFIC
from tally.algebra.level import Level
from tally.algebra.parts import Histogram, Max, Min, Sum, Uniques
from tally.families.family import Family
from tally.families.kind import DERIVED, LEVEL
from tests.unit.speed.definitions.definition_digest import (
    DECIDE,
    FOLDS,
    TRANSFORMS,
    current,
    definition_digest,
    digest_of,
    recorded,
    sources,
    tables_of,
)
from tests.unit.speed.definitions.definition_digest import PARTS as ALL_PARTS

CODE = sources(REPOSITORY)
PARTS, LEVELS = ALL_PARTS
PHONES = Family("phones", ("zone",), (Uniques("visitors"),), epoch=1)
QUEUES = Family("queues", (), (Max("longest"), Min("shortest"), Histogram("waits")), epoch=1)
STOCK = Family("stock", ("item",), (Level("pieces"),), epoch=1, kind=LEVEL)
VISITS = Family("visits", (), (Sum("visits"),), epoch=1, kind=DERIVED)
ALL = (SALES, TRAFFIC, PHONES, QUEUES, STOCK, VISITS)
EACH = {family.name for family in ALL}


def changed_by(file: str, before: str, after: str) -> set[str]:
    """The families whose digest is another one once the file says something else."""
    assert before in CODE[file], "the planted change changes nothing"
    changed = {**CODE, file: CODE[file].replace(before, after)}
    return {one.name for one in ALL if _digest(one, changed) != digests_of_now()[one.name]}


@cache
def digests_of_now() -> dict[str, str]:
    """The digest of each family of ALL with the code as it is."""
    return {one.name: _digest(one, CODE) for one in ALL}


def _digest(family: Family, code: dict[str, str], tables: Iterable[str] = ("CREATE TABLE",)) -> str:
    return definition_digest(family, code, tables)


def test_definitions_are_the_recorded_ones() -> None:
    assert current(FAMILIES.values()) == recorded(), (
        "rows would be computed in another way: raise the epoch of a family whose numbers can"
        " change, then run `python -m tests.unit.speed.definitions.definition_digest`"
    )


@pytest.mark.parametrize(
    "changed",
    [replace(SALES, parts=SALES.parts[:-1]), replace(SALES, kind=LEVEL), replace(SALES, epoch=9)],
    ids=["parts", "kind", "epoch"],
)
def test_another_shape_or_epoch_is_not_the_recorded_one(changed: Family) -> None:
    assert current([changed])["sales"] != recorded()["sales"]


@pytest.mark.parametrize(
    ("file", "before", "after", "families"),
    [
        (PARTS, "sorted(set(brought))", "sorted([*brought])", {"phones"}),
        (FOLDS, "F.array_distinct(digests)", "digests", {"phones"}),
        (PARTS, "min(brought, default=None)", "min(brought, default=0)", {"queues"}),
        (FOLDS, "F.greatest(so_far, event[name])", "event[name]", {"queues"}),
        (PARTS, "STEPS: ClassVar[int] = 5", "STEPS: ClassVar[int] = 6", {"queues"}),
        (LEVELS, "events[max(counts, default=0) :]", "events", {"stock"}),
        (FOLDS, "place + 1", "place", {"stock"}),
        (PARTS, "whole - taken", "taken - whole", {"sales", "traffic", "visits"}),
        ("tally/families/kind.py", "class LevelKind(", "class Level(", {"stock"}),
        ("tally/families/kind.py", "batch.events, batch.values", "0, batch.values", {"visits"}),
        (
            "tally/families/kind.py",
            "if batch.events:",
            "if not batch.events:",
            {"sales", "traffic", "phones", "queues", "stock"},
        ),
        ("tally/spark/frames.py", 'F.sort_array("members")', 'F.col("members")', EACH),
        ("tally/families/family.py", "MAX_TEXT_BYTES = 4096", "MAX_TEXT_BYTES = 4095", EACH),
        ("tally/families/family.py", 'TOTAL_DIM = "*"', 'TOTAL_DIM = "+"', set()),
        ("tally/time/windows.py", "timedelta(minutes=15)", "timedelta(minutes=5)", EACH),
        ("tally/time/windows.py", "MAX_DAYS = 10_000", "MAX_DAYS = 9_000", set()),
        ("speed_layer/views.py", "timedelta(days=1)", "timedelta(days=2)", EACH),
        ("speed_layer/views.py", 'F.sha2("event_id", 256)', 'F.sha2("event_id", 512)', EACH),
        ("speed_layer/views.py", 'outputMode("update")', 'outputMode("append")', set()),
        ("batch_layer/views/compute/classification.py", "is_again | is_void", "is_again", EACH),
        ("batch_layer/views/compute/chains.py", "F.col(name).desc()", "F.col(name).asc()", EACH),
        ("tally/events/identity.py", 'REVERSAL = "void:"', 'REVERSAL = "undo:"', EACH),
        (
            "batch_layer/views/compute/classification.py",
            "elsewhere OR taken_back",
            "elsewhere",
            EACH,
        ),
        ("batch_layer/views/compute/classification.py", "F.countDistinct(", "F.count(", set()),
    ],
)
def test_change_of_one_kind_changes_the_digests_of_its_families_alone(
    file: str, before: str, after: str, families: set[str]
) -> None:
    assert changed_by(file, before, after) == families


def test_changed_computation_without_a_higher_epoch_is_found() -> None:
    file, before = "tally/spark/frames.py", 'F.sort_array("members")'
    changed = {**CODE, file: CODE[file].replace(before, 'F.sort_array("members", asc=False)')}
    digest = recorded()["sales"]["digest"]

    assert _digest(SALES, changed, tables_of(SALES)) != digest
    assert _digest(SALES, CODE, tables_of(SALES)) == digest


def test_another_column_of_a_table_is_another_definition() -> None:
    assert _digest(SALES, CODE, ("CREATE TABLE a (b int)",)) != _digest(SALES, CODE)
    assert digest_of(SALES) != digest_of(TRAFFIC)


def test_digest_is_the_same_for_a_python_whose_trees_have_more_fields(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, parse = _digest(SALES, CODE), ast.parse

    def newer(text: str) -> ast.AST:
        tree = parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                added = {"_fields": (*node._fields, "type_params"), "type_params": []}
                vars(node).update(added)
        return tree

    monkeypatch.setattr("tests.unit.speed.definitions.definition_digest.ast.parse", newer)

    assert _digest(SALES, CODE) == before


@pytest.mark.parametrize("file", [*TRANSFORMS, *ALL_PARTS, FOLDS, *DECIDE])
def test_comment_and_docstrings_do_not_change_the_definition(file: str) -> None:
    remarked = '# A remark.\n"""Other words, ' + CODE[file].removeprefix('"""')
    inside = remarked.replace('    """The ', '    """In other words, the ')

    assert inside != CODE[file]
    assert _digest(SALES, {**CODE, file: inside}) == _digest(SALES, CODE)
