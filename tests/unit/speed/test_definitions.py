"""A change of what the layers compute, or of a view's columns, needs a higher epoch
(tally/families.py), and no job starts with another computation than its epoch stands for."""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from runtime.definitions import RECORDED, digest_of, refuse_changed, tables_of
from runtime.repository import REPOSITORY
from runtime.sources import FAMILIES, SALES, TRAFFIC
from schemas.loader import own_sources
from tally.algebra.level import Level
from tally.algebra.parts import Histogram, Max, Min, Sum, Uniques
from tally.definition import DECIDE, FOLDS, TRANSFORMS, definition_digest, sources
from tally.definition import PARTS as ALL_PARTS
from tally.errors import DefinitionChanged
from tally.families import Family
from tally.kinds.derived import DERIVED
from tally.kinds.level import LEVEL

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


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
def test_definition_is_the_recorded_one(family: Family) -> None:
    assert (own_sources()[family.name].folder / RECORDED).is_file()
    refuse_changed([family])


@pytest.mark.parametrize(
    ("family", "told"),
    [
        (replace(SALES, parts=SALES.parts[:-1]), "sales: rows of epoch 4 would be computed in"),
        (replace(SALES, kind=LEVEL), "raise the family's epoch if a number can change"),
        (replace(SALES, epoch=5), '"epoch": 5'),
    ],
    ids=["parts", "kind", "epoch"],
)
def test_job_whose_digest_does_not_fit_its_epoch_is_refused_in_one_line(
    family: Family, told: str
) -> None:
    with pytest.raises(DefinitionChanged) as raised:
        refuse_changed([TRAFFIC, family])

    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_family_of_which_nothing_was_recorded_may_start() -> None:
    refuse_changed([PHONES, STOCK])


@pytest.mark.parametrize("module", ["speed_layer.job", "batch_layer.views.rebuild"])
def test_job_ends_as_refused_with_one_line_before_it_asks_for_anything(
    module: str, tmp_path: Path
) -> None:
    folder = tmp_path / "queues"
    shutil.copytree(REPOSITORY / "tests" / "e2e" / "eleventh", folder)
    (folder / RECORDED).write_text('{"epoch": 1, "digest": "of another computation"}')

    done = subprocess.run(
        [sys.executable, "-m", module],
        cwd=REPOSITORY,
        env={**os.environ, "TALLY_SOURCES": str(folder), "TALLY_KAFKA": "127.0.0.1:1"},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 78
    assert "queues: rows of epoch 1 would be computed in another way" in done.stderr
    assert len(done.stderr.splitlines()) == 1


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
        ("tally/kinds/level.py", "class LevelKind(", "class Level(", {"stock"}),
        ("tally/kinds/derived.py", "keeps_emptied: ClassVar[bool] = True", "", {"visits"}),
        (
            "tally/kinds/additive.py",
            "if batch.events:",
            "if not batch.events:",
            {"sales", "traffic", "phones", "queues", "stock"},
        ),
        ("tally/frames.py", 'F.sort_array("members")', 'F.col("members")', EACH),
        ("tally/families.py", "MOST_TEXT_BYTES = 4096", "MOST_TEXT_BYTES = 4095", EACH),
        ("tally/families.py", 'TOTAL_DIM = "*"', 'TOTAL_DIM = "+"', set()),
        ("tally/windows.py", "timedelta(minutes=15)", "timedelta(minutes=5)", EACH),
        ("tally/windows.py", "MOST_DAYS = 10_000", "MOST_DAYS = 9_000", set()),
        ("speed_layer/views.py", "timedelta(days=1)", "timedelta(days=2)", EACH),
        ("speed_layer/views.py", 'F.sha2("event_id", 256)', 'F.sha2("event_id", 512)', EACH),
        ("speed_layer/views.py", 'outputMode("update")', 'outputMode("append")', set()),
        ("batch_layer/views/fates.py", "is_again | is_void", "is_again", EACH),
        ("batch_layer/views/chains.py", "F.col(name).desc()", "F.col(name).asc()", EACH),
        ("tally/identity.py", 'REVERSAL = "void:"', 'REVERSAL = "undo:"', EACH),
        ("batch_layer/views/fates.py", "elsewhere OR taken_back", "elsewhere", EACH),
        ("batch_layer/views/fates.py", "F.countDistinct(", "F.count(", set()),
    ],
)
def test_change_of_one_kind_changes_the_digests_of_its_families_alone(
    file: str, before: str, after: str, families: set[str]
) -> None:
    assert changed_by(file, before, after) == families


def test_changed_computation_without_a_higher_epoch_is_found() -> None:
    file, before = "tally/frames.py", 'F.sort_array("members")'
    changed = {**CODE, file: CODE[file].replace(before, 'F.sort_array("members", asc=False)')}
    recorded = json.loads((own_sources()["sales"].folder / RECORDED).read_bytes())

    assert _digest(SALES, changed, tables_of(SALES)) != recorded["digest"]
    assert _digest(SALES, CODE, tables_of(SALES)) == recorded["digest"]


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

    monkeypatch.setattr("tally.definition.ast.parse", newer)

    assert _digest(SALES, CODE) == before


@pytest.mark.parametrize("file", [*TRANSFORMS, *ALL_PARTS, FOLDS, *DECIDE])
def test_comment_and_docstrings_do_not_change_the_definition(file: str) -> None:
    remarked = '# A remark.\n"""Other words, ' + CODE[file].removeprefix('"""')
    inside = remarked.replace('    """The ', '    """In other words, the ')

    assert inside != CODE[file]
    assert _digest(SALES, {**CODE, file: inside}) == _digest(SALES, CODE)
