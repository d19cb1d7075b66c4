"""One class name is one thing: a reader who searches it finds one class. One idea has one word,
that of the glossary."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.architecture.counts.sources import ROOT, parsed, python_files

# A digit or a small letter somewhere, else it is a constant of one word.
_CAMEL = re.compile(r"_?[A-Z]+[a-z0-9]\w*")


def types_of(tree: ast.Module) -> list[str]:
    """The classes and the other types that a module names, private ones without their underscore.

    A name in CamelCase that a module gives to anything but a class of typing is a type's.
    """
    found = []
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name):
                found.append(name)
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name))
            ) if _CAMEL.fullmatch(name) and not _is_variable(node.value):
                found.append(name)
    return [name.lstrip("_") for name in found]


def _is_variable(value: ast.expr | None) -> bool:
    # What stands in for any type is each module's own, as a parameter is each function's.
    return isinstance(value, ast.Call) and ast.unparse(value.func) == "TypeVar"


def types() -> dict[str, list[str]]:
    """Classes and other types of the product and of the benchmarks by name, with their files."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in python_files():
        if file.parts[0] != "tests":
            for name in types_of(parsed(file)):
                found[name].append(str(file))
    return found


def test_each_name_of_a_type_is_one_type() -> None:
    assert {name: files for name, files in types().items() if len(files) > 1} == {}


@pytest.mark.parametrize(
    "text",
    [
        "class Mark: ...",
        "class _Mark: ...",
        "Mark = tuple[int, int]",
        "_Mark: TypeAlias = tuple[int, int]",
        'Mark: TypeAlias = "Callable[[Driver], Mark]"',
    ],
)
def test_a_planted_type_is_found(text: str) -> None:
    assert types_of(ast.parse(text)) == ["Mark"]


def test_constants_variables_and_stand_ins_for_any_type_are_no_types() -> None:
    text = 'MOST = 1\nlog = get_logger()\nItem = TypeVar("Item")\nF.x = 1\nA, B = 1, 2'

    assert types_of(ast.parse(text)) == []


def unused_words() -> set[str]:
    """The first column of the glossary's last table."""
    table = (ROOT / "docs/glossary.md").read_text("utf-8").split("## Words that no name")[1]
    return {line.split("|")[1].strip() for line in table.splitlines()[4:] if line.startswith("|")}


def names(file: Path) -> Iterator[str]:
    """The module's name, and those of what it defines: classes, functions, parameters, variables,
    fields, and what it calls an import."""
    yield file.stem
    for node in ast.walk(parsed(file)):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.AsyncFunctionDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.alias(asname=str(name)):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield name


def words(name: str) -> set[str]:
    """Of `PlannedMessage` and `plan_messages` alike: sent, message."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")
    return {word.removesuffix("s") for word in parted} | set(parted)


def found_words(file: Path) -> set[str]:
    """Which of the words that the glossary leaves to others the file's names have."""
    return unused_words() & {word for name in names(file) for word in words(name)}


def test_no_name_has_a_word_that_the_glossary_has_replaced() -> None:
    product = [file for file in python_files() if file.parts[0] != "tests"]

    assert {str(file): found for file in product if (found := found_words(file))} == {}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("class Notices:\n    pass", "notice"),
        ("def worth_of(cell):\n    return cell", "worth"),
        ("def checked(entrance):\n    return entrance", "entrance"),
        ("richer_row = 1", "richer"),
        ("async def notice(): ...", "notice"),
        ("class A:\n    def __init__(self):\n        self.worth = 1", "worth"),
        ("from tally import errors as entrance", "entrance"),
        ("try: f()\nexcept E as notice: g()", "notice"),
    ],
)
def test_such_a_name_is_found(tmp_path: Path, text: str, word: str) -> None:
    file = tmp_path / "planted.py"
    file.write_text(text, "utf-8")

    assert found_words(file) == {word}
