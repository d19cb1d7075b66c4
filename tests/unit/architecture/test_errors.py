"""Errors are classes of tally/errors.py: whoever catches one finds there what it means."""

import ast
import builtins
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.unit.architecture.counts.sources import parsed, python_files

HOME = Path("tally/errors.py")
# Each with the reason why it cannot be there.
ELSEWHERE = {
    # A class of Starlette's; tally knows no web server.
    Path("ingest/gateway/app.py"): ["HttpRefusal"],
    # schemas imports nothing of ours.
    Path("schemas/source.py"): ["BadSource"],
}


def exceptions_of(trees: Iterable[ast.Module]) -> list[str]:
    """The classes of these modules, one list, that can be raised: by what they are built on.

    A base of another library is known by its name, which ends with Error, Exception or Warning.
    """
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    raised = {
        name
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    } | {node.name for node in ast.walk(parsed(HOME)) if isinstance(node, ast.ClassDef)}
    found: list[str] = []
    # Again while there are more: one may be built on another that stands below it.
    while more := [one.name for one in classes if one.name not in found and _is(one, raised)]:
        found += more
        raised.update(more)
    return sorted(found)


def _is(node: ast.ClassDef, raised: set[str]) -> bool:
    bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
    return any(base in raised or base.endswith(("Error", "Exception", "Warning")) for base in bases)


def test_every_error_of_the_product_has_its_class_in_one_file() -> None:
    product = [file for file in python_files() if file.parts[0] != "tests" and file != HOME]
    found = {file: names for file in product if (names := exceptions_of([parsed(file)]))}

    assert found == ELSEWHERE


@pytest.mark.parametrize(
    "text",
    [
        "class Late(Exception): ...",
        "class Late(TallyError): ...",
        "class _Late(errors.PublicationRefused): ...",
        "class Late(HTTPException): ...",
        "def f():\n    class Late(kafka.KafkaError): ...",
    ],
)
def test_a_planted_error_is_found(text: str) -> None:
    assert [name.strip("_") for name in exceptions_of([ast.parse(text)])] == ["Late"]


def test_an_error_that_is_built_on_one_below_it_is_found() -> None:
    text = "class A(B): ...\nclass B(ValueError): ...\nclass C(D): ...\nclass D: ..."

    assert exceptions_of([ast.parse(text)]) == ["A", "B"]
