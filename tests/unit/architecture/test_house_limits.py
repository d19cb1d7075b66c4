import ast
from pathlib import Path

import pytest

from tests.unit.architecture.counts.limits import beyond_limits
from tests.unit.architecture.counts.sources import ROOT, parsed, python_files

SOURCE, TEST = Path("tally/planted.py"), Path("tests/planted.py")
LONG_BODY = "def f() -> None:\n    '''Nothing.'''\n" + "    pass\n" * 51
SIX = "def f(a, b, c, *, d, e, g): pass\n"
UNDOCUMENTED = "def f(a):\n" + "    a += 1\n" * 4


def test_every_file_keeps_the_limits() -> None:
    found = [
        line
        for file in python_files()
        for line in beyond_limits(file, (ROOT / file).read_text("utf-8"))
    ]

    assert found == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = 1\n" * 401, "tally/planted.py: 401 lines"),
        (LONG_BODY, "tally/planted.py:1: f has a body of 51 lines"),
        (SIX, "tally/planted.py:1: f takes 6 parameters"),
        (UNDOCUMENTED, "tally/planted.py:1: f has no docstring"),
    ],
)
def test_a_planted_excess_is_found(text: str, found: str) -> None:
    assert beyond_limits(SOURCE, text) == [found]


@pytest.mark.parametrize("text", [SIX, UNDOCUMENTED, LONG_BODY.replace("    pass\n", "", 1)])
def test_tests_may_have_more_parameters_and_no_docstrings(text: str) -> None:
    assert beyond_limits(TEST, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "def verb("
        + ", ".join(f"{name}: Annotated[str, typer.Option()]" for name in "abcdef")
        + "): pass\n",
        "def outer():\n    '''Adds.'''\n"
        + "".join(f"    {line}\n" for line in UNDOCUMENTED.splitlines()),
        UNDOCUMENTED.replace("def f", "def _f"),
    ],
)
def test_command_line_options_and_private_functions_are_within_the_limits(text: str) -> None:
    assert beyond_limits(SOURCE, text) == []


def test_a_package_file_holds_only_a_docstring() -> None:
    packages = [file for file in python_files() if file.name == "__init__.py"]

    assert [str(file) for file in packages if not _is_only_docstring(parsed(file))] == []


def test_no_exception_is_swallowed() -> None:
    silent = [
        str(file)
        for file in python_files()
        if any(_swallows(node) for node in ast.walk(parsed(file)))
    ]

    assert silent == []


@pytest.mark.parametrize(
    "clause",
    [
        "except:",
        "except Exception:",
        "except BaseException as error:",
        "except (ValueError, Exception):",
    ],
)
def test_a_planted_swallowed_exception_is_found(clause: str) -> None:
    assert any(
        _swallows(node) for node in ast.walk(ast.parse(f"try:\n    f()\n{clause}\n    pass\n"))
    )


def _is_only_docstring(tree: ast.Module) -> bool:
    return len(tree.body) == 1 and bool(ast.get_docstring(tree))


def _swallows(node: ast.AST) -> bool:
    """Whether it catches everything and does nothing about it."""
    if not isinstance(node, ast.ExceptHandler):
        return False
    caught = (
        {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)}
        if node.type
        else {"Exception"}
    )
    return bool(caught & {"Exception", "BaseException"}) and all(
        isinstance(statement, ast.Pass) for statement in node.body
    )
