"""One class name is one thing: a reader who searches it finds one class. One idea has one word,
that of the glossary."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.architecture.sources import ROOT, parsed, python_files


def classes() -> dict[str, list[str]]:
    """Public classes of the product and of the benchmarks by name, with their files."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in python_files():
        if file.parts[0] != "tests":
            for node in parsed(file).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(str(file))
    return found


def test_each_name_of_a_class_is_one_class() -> None:
    assert {name: files for name, files in classes().items() if len(files) > 1} == {}


def unused_words() -> set[str]:
    """The first column of the glossary's last table."""
    table = (ROOT / "docs/glossary.md").read_text("utf-8").split("## Words that no name")[1]
    return {line.split("|")[1].strip() for line in table.splitlines()[4:] if line.startswith("|")}


def names(file: Path) -> Iterator[str]:
    """The module's name, and those of what it defines: classes, functions, parameters, variables
    and fields."""
    yield file.stem
    for node in ast.walk(parsed(file)):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name


def words(name: str) -> set[str]:
    """Of `SentMessage` and `sent_messages` alike: sent, message."""
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
    ],
)
def test_such_a_name_is_found(tmp_path: Path, text: str, word: str) -> None:
    file = tmp_path / "planted.py"
    file.write_text(text, "utf-8")

    assert found_words(file) == {word}
