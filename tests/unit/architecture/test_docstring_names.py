"""What docstrings and comments name exists: a rename reaches them too."""

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.unit.architecture.counts.sources import ROOT, parsed, python_files

_CALLED = re.compile(r"\b(?:\w+\.)*([A-Za-z_]\w*)\(\)")
_CONSTANT = re.compile(r"\b[A-Z]{2,}(?:_[A-Z]+)+\b")
_RAISED = re.compile(r"\b[Rr]aises? ([A-Z]\w+(?:(?:, | and | or )[A-Z]\w+)*)")
# Of Kafka, Linux, and of the environment.
_OUTSIDE = re.compile(r"TALLY_\w+|XDG_CACHE_HOME|JAVA_HOME|CLOCK_MONOTONIC|TIME_WAIT|EX_CONFIG")
_TEXTS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def _product() -> tuple[Path, ...]:
    return tuple(file for file in python_files() if file.parts[0] != "tests")


@cache
def _read_names() -> tuple[frozenset[str], frozenset[str]]:
    """All names that the product's code uses, and those of them that may be types."""
    used, types = set(dir(builtins)), set(dir(builtins))
    for file in _product():
        for node in ast.walk(parsed(file)):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    used.add(name)
                case ast.ClassDef(name=name):
                    used.add(name)
                    types.add(name)
                case ast.Attribute(attr=name) | ast.Name(id=name) | ast.arg(arg=name):
                    used.add(name)
                    types |= {name} if name[0].isupper() else set()
                case ast.alias(name=name, asname=renamed):
                    types.add(renamed or name.rpartition(".")[2])
                case _:
                    pass
    return frozenset(used | types), frozenset(types)


def _missing(text: str) -> Iterator[str]:
    """The names in the text of a docstring or comment that the repository does not have."""
    used, types = _read_names()
    yield from (f"{name}()" for name in _CALLED.findall(text) if name not in used)
    yield from (
        name
        for name in _CONSTANT.findall(text)
        if name not in used and _OUTSIDE.fullmatch(name) is None
    )
    for raised in _RAISED.findall(text):
        yield from (name for name in re.findall(r"[A-Z]\w+", raised) if name not in types)


def _texts(source: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, _TEXTS) and (docstring := ast.get_docstring(node)):
            yield docstring
    yield from (line for line in source.splitlines() if line.lstrip().startswith("#"))


def test_names_in_docstrings_and_comments_exist() -> None:
    files = _product()
    found = [
        f"{file}: {name}"
        for file in files
        for text in _texts((ROOT / file).read_text("utf-8"), parsed(file))
        for name in _missing(text)
    ]

    assert len(files) > 100
    assert found == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("as gone_for_good() does it", ["gone_for_good()"]),
        ("at most MANY_GONE_ROWS of them", ["MANY_GONE_ROWS"]),
        ("Raises GoneError, and ValueError.", ["GoneError"]),
        ("as redact_text() does it. Raises ValueError for TALLY_HOME.", []),
    ],
)
def test_a_name_that_is_gone_is_found(text: str, missing: list[str]) -> None:
    assert [*_missing(text)] == missing
