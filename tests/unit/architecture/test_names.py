"""One class name is one thing: a reader who searches it finds one class."""

import ast
from collections import defaultdict

from tests.unit.architecture.sources import parsed, python_files


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
