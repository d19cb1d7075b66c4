"""Which settings a process reads, by its code: those that any module which it imports asks for."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache

from schemas.loader import builtin_sources
from tally.config.settings import Settings, lateness_variable
from tests.unit.architecture.counts.imports import imported_modules
from tests.unit.architecture.counts.sources import module_name, parsed, python_files

# Properties and methods of Settings, with the settings that they read.
DERIVED: Mapping[str, tuple[str, ...]] = {
    "master_path": ("home",),
    "first_copies_path": ("home",),
    "control_copies_path": ("home",),
    "registry": ("stores_file", "home"),
    "checkpoint": ("checkpoints", "home"),
    "lateness_seconds": ("lateness",),
}
# The one that has a variable for each source.
LATENESS = "lateness"


@cache
def read_variables(started: str) -> frozenset[str]:
    """TALLY_ variables of the settings that the process `python -m <started>` may read.

    Rather too many than too few: what an imported module reads counts, called or not.
    """
    modules = _modules()
    return frozenset(
        variable
        for module in imported_by(started)
        for field in fields_read(modules[module])
        for variable in variables_of(field)
    )


def imported_by(started: str) -> set[str]:
    """The modules that `python -m <started>` may import, its own one too."""
    main = f"{started}.__main__"
    return _reached(main if main in _modules() else started)


def fields_read(tree: ast.Module) -> Iterator[str]:
    """Fields of Settings that a module asks something called `settings` for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and "settings" in _name(node.value):
            if node.attr in Settings.model_fields:
                yield node.attr
            yield from DERIVED.get(node.attr, ())


def variables_of(field: str) -> tuple[str, ...]:
    """The variables that a field is read from."""
    if field == LATENESS:
        return tuple(map(lateness_variable, builtin_sources()))
    return (f"TALLY_{field.upper()}",)


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@cache
def _modules() -> Mapping[str, ast.Module]:
    return {module_name(file): parsed(file) for file in python_files()}


@cache
def _graph() -> Mapping[str, set[str]]:
    modules = _modules()
    return {name: imported_modules(name, tree, modules) for name, tree in modules.items()}


def _reached(start: str) -> set[str]:
    found, more = set[str](), {start}
    while more:
        found |= more
        more = {name for module in more for name in _graph()[module]} - found
    return found
