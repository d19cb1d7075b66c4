"""What docstrings owe their readers: the shapes of frames, the units of numbers in tuples and
dicts, and what a call waits for."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.unit.architecture.counts.limits import Function, public_functions

FRAMES = {"Column", "DataFrame"}
TABLES = {"tuple", "dict", "Mapping"}
NUMBERS = {"int", "float"}
# What a number in the result may be; a name such as `seconds` alone is a hint and no promise.
UNITS = re.compile(
    r"(?i)\b(offsets?|counts?|how many|distinct|seconds|milliseconds|days?|bytes|MiB|cents|places?"
    r"|line number|exit code|status|port|CRC-32|in its unit|part numbers?)\b"
)
# "Nothing, once all is written": the value of a call that has none.
_NOTHING = re.compile(r"Nothing(,| if\b| when\b| for\b)")


def without_shapes(file: Path, tree: ast.Module) -> list[str]:
    """Public functions that take or give a frame or column of PySpark and lack a line `In:`, `Out:`
    or both, one line each.

    A function without a frame among its parameters says where its rows are from, one that gives
    none what it gives.
    """
    names = _imported_frames(tree)
    return [
        f"{file}:{one.lineno}: {one.name}"
        for one in public_functions(tree)
        if names & set(_annotated(one)) and not _has_shapes(one)
    ]


def without_units(file: Path, tree: ast.Module) -> list[str]:
    """Public functions whose tuples, dicts or rows hold numbers of which the docstring names no
    unit, one line each."""
    return [
        f"{file}:{one.lineno}: {one.name}"
        for one in public_functions(tree)
        if _holds_numbers(one.returns) and not UNITS.search(ast.get_docstring(one) or "")
    ]


def _holds_numbers(returns: ast.expr | None) -> bool:
    names = {node.id for node in ast.walk(returns) if isinstance(node, ast.Name)} if returns else ()
    return bool(NUMBERS.intersection(names) and TABLES.intersection(names))


def that_begin_with_nothing(file: Path, tree: ast.Module) -> list[str]:
    """Functions whose docstring tells of a None instead of what the call waits for or raises."""
    return [
        f"{file}:{one.lineno}: {one.name}"
        for one in ast.walk(tree)
        if isinstance(one, Function) and _NOTHING.match(ast.get_docstring(one) or "")
    ]


def _imported_frames(tree: ast.Module) -> set[str]:
    # By the import: rich has a Column too.
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark.sql")
        for alias in node.names
        if alias.name in FRAMES
    }


def _annotated(function: Function) -> Iterator[str]:
    """Every name in the annotations of the parameters and of the result."""
    given = function.args
    parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    annotations = [one.annotation for one in parameters if one is not None]
    for annotation in (*annotations, function.returns):
        for node in ast.walk(annotation) if annotation is not None else ():
            if isinstance(node, ast.Name):
                yield node.id


def _has_shapes(function: Function) -> bool:
    lines = [line.strip() for line in (ast.get_docstring(function) or "").splitlines()]
    return all(any(line.startswith(word) for line in lines) for word in ("In:", "Out:"))
