import ast
from pathlib import Path

import pytest

from tests.unit.architecture.counts.docstrings import (
    that_begin_with_nothing,
    without_shapes,
    without_units,
)
from tests.unit.architecture.counts.sources import parsed, python_files

# Columns to columns inside one select; frames.py is being divided, and they with it.
NOT_YET: set[str] = set()
PYSPARK = "from pyspark.sql import Column, DataFrame\n"
PRODUCT = [file for file in python_files() if file.parts[0] != "tests"]


def test_every_public_function_of_frames_tells_what_goes_in_and_what_comes_out() -> None:
    found = [line for file in PRODUCT for line in without_shapes(file, parsed(file))]

    assert [line for line in found if line.split(": ")[1] not in NOT_YET] == []


@pytest.mark.parametrize(
    "function",
    [
        "def f(rows: DataFrame) -> int:\n    '''Rows.\n\n    In: a.\n    '''\n",
        "def f(path: Path) -> DataFrame:\n    '''Rows.\n\n    Out: a.\n    '''\n",
        "def f(*rows: DataFrame) -> None:\n    '''Rows.'''\n",
        "def f(name: str) -> tuple[int, Column]: ...\n",
        "class A:\n    async def f(self, row: Column) -> Column:\n        '''A column.'''\n",
    ],
)
def test_a_planted_function_without_shapes_is_found(function: str) -> None:
    found = without_shapes(Path("x.py"), ast.parse(PYSPARK + function))

    assert [line.split(": ")[1] for line in found] == ["f"]


@pytest.mark.parametrize(
    "function",
    [
        "def f(rows: DataFrame) -> int:\n    '''Rows.\n\n    In:  a.\n    Out: a.\n    '''\n",
        "def _f(rows: DataFrame) -> int: ...\n",
        "def f(rows: int) -> int:\n    def g(rows: DataFrame) -> None: ...\n    return rows\n",
    ],
)
def test_a_function_with_shapes_or_of_nobody_else_is_not_found(function: str) -> None:
    assert without_shapes(Path("x.py"), ast.parse(PYSPARK + function)) == []


def test_a_column_of_another_library_is_no_frame() -> None:
    rich = "from rich.table import Column\ndef f(column: Column) -> None: ...\n"

    assert without_shapes(Path("x.py"), ast.parse(rich)) == []


def test_docstrings_tell_what_a_call_waits_for_and_not_that_it_gives_nothing() -> None:
    assert [line for file in PRODUCT for line in that_begin_with_nothing(file, parsed(file))] == []


@pytest.mark.parametrize("text", ["Nothing, once all is written.", "Nothing if it is there."])
def test_a_planted_docstring_that_tells_of_nothing_is_found(text: str) -> None:
    tree = ast.parse(f"def f():\n    '''{text}'''\n")

    assert that_begin_with_nothing(Path("x.py"), tree) == ["x.py:1: f"]


def test_numbers_in_tuples_and_dicts_have_units() -> None:
    assert [line for file in PRODUCT for line in without_units(file, parsed(file))] == []


@pytest.mark.parametrize("returns", ["tuple[int, str]", "dict[str, float]", "list[dict[str, int]]"])
def test_a_planted_number_without_a_unit_is_found(returns: str) -> None:
    bare = f"def f() -> {returns}:\n    '''The last ones.'''\n"
    told = f"def f() -> {returns}:\n    '''Seconds waited, and for whom.'''\n"

    assert without_units(Path("x.py"), ast.parse(bare)) == ["x.py:1: f"]
    assert without_units(Path("x.py"), ast.parse(told)) == []
