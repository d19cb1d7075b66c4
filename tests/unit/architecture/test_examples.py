"""The examples in docstrings are true: each is run, wherever it stands."""

import ast
import doctest
from importlib import import_module
from pathlib import Path

import pytest

from tests.unit.architecture.counts.sources import ROOT, module_name, parsed, python_files

# Examples that cannot be run here, by file, and why. One of a Spark column would be such a one: it
# needs a JVM, which no fast tier may start.
NOT_RUN: dict[str, str] = {}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
INNER = '''
def outer():
    def inner():
        """One.

        >>> 1
        1
        """
'''


def examples(tree: ast.Module) -> int:
    """How many examples the docstrings of a file hold, those of inner functions too."""
    documented = (node for node in ast.walk(tree) if isinstance(node, DOCUMENTED))
    texts = (ast.get_docstring(node) or "" for node in documented)
    return sum(len(doctest.DocTestParser().get_examples(text)) for text in texts)


# Found by their prompt first: to parse every file takes seconds, of each worker.
WITH_EXAMPLES = [
    file
    for file in python_files()
    if ">>> " in (ROOT / file).read_text("utf-8") and examples(parsed(file))
]


@pytest.mark.parametrize(
    "file", [file for file in WITH_EXAMPLES if str(file) not in NOT_RUN], ids=str
)
def test_the_examples_of_a_file_are_true(file: Path) -> None:
    tried = doctest.testmod(import_module(module_name(file)))

    # As many as there are: doctest passes over what it does not find, an inner function's for one.
    assert (tried.failed, tried.attempted) == (0, examples(parsed(file)))


def test_only_files_with_examples_are_left_out() -> None:
    assert {*NOT_RUN} - {str(file) for file in WITH_EXAMPLES} == set()


def test_there_are_examples() -> None:
    assert Path("tally/events/money.py") in WITH_EXAMPLES


def test_examples_of_inner_functions_are_counted() -> None:
    assert examples(ast.parse(INNER)) == 1
