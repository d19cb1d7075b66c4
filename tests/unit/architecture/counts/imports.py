"""The imports that import_rules.py forbids."""

import ast
import sys
from collections.abc import Container, Iterator, Mapping
from functools import cache

from tests.unit.architecture.counts.import_rules import OTHERS, OURS, SPARK, WITHOUT_SPARK
from tests.unit.architecture.counts.sources import PACKAGES, module_name, parsed, python_files

Graph = Mapping[str, set[str]]


def forbidden_imports(module: str, tree: ast.Module) -> list[str]:
    """Names that the module imports and may not, in the order of the file."""
    return [name for name in imported(module, tree) if not may_import(module, name)]


@cache
def imported(module: str, tree: ast.Module) -> tuple[str, ...]:
    """Every imported name in full, imports inside functions and `import_module("literal")` too."""
    return tuple(_imported(module, tree))


def _imported(module: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            base = [*above, *([node.module] if node.module else [])]
            yield from (".".join([*base, alias.name]) for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and _called(node) in ("import_module", "__import__")
            and node.args
        ):
            yield from (
                str(value.value) for value in node.args[:1] if isinstance(value, ast.Constant)
            )


def imported_modules(module: str, tree: ast.Module, modules: Container[str]) -> set[str]:
    """Those of `modules` that the module imports, by name: whole, or something of theirs."""
    names = imported(module, tree)
    found = {name if name in modules else name.rpartition(".")[0] for name in names}
    return {name for name in found if name in modules}


def bringing(graph: Graph, wanted: Container[str]) -> frozenset[str]:
    """The modules of a graph of imports that come to one of `wanted`, by whatever way."""
    found: set[str] = set()
    more = {module for module, to in graph.items() if any(name in wanted for name in to)}
    while more:
        found |= more
        more = {module for module, to in graph.items() if to & more} - found
    return frozenset(found)


@cache
def bring_spark() -> frozenset[str]:
    """Our modules that bring PySpark along, by what they import today."""
    files = {module_name(file): parsed(file) for file in python_files()}
    return bringing(
        {
            module: imported_modules(module, tree, files)
            | {name.split(".")[0] for name in imported(module, tree)}
            for module, tree in files.items()
        },
        SPARK,
    )


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def may_import(module: str, name: str) -> bool:
    """Whether the table lets the module import what has this full name."""
    top = name.split(".")[0]
    if top in sys.stdlib_module_names:
        return True
    folder = _longest(module, OURS)
    if any(_lies_in(module, layer) for layer in WITHOUT_SPARK) and _brings_spark(name):
        return False
    if top in PACKAGES:
        return any(_lies_in(name, allowed) for allowed in (folder, *OURS[folder]))
    rules = [prefix for prefix in OTHERS if _lies_in(module, prefix)]
    return not rules or any(top in OTHERS[prefix] for prefix in rules)


def _brings_spark(name: str) -> bool:
    return name.split(".")[0] in SPARK or any(_lies_in(name, one) for one in bring_spark())


def _longest(module: str, table: dict[str, tuple[str, ...]]) -> str:
    return max((prefix for prefix in table if _lies_in(module, prefix)), key=len)


def _lies_in(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")
