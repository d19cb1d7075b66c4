"""The Python files of the repository, parsed once."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[4]
PACKAGES = (
    "tally",
    "schemas",
    "runtime",
    "ingest",
    "speed_layer",
    "batch_layer",
    "serving",
    "alerting",
    "inventory",
    "web",
    "dags",
    "ops",
    "bench",
    "tests",
)


@cache
def python_files() -> tuple[Path, ...]:
    """Every Python file of the repository's packages, relative to its root, ordered."""
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return tuple(sorted(file.relative_to(ROOT) for file in files))


@cache
def parsed(file: Path) -> ast.Module:
    """Syntax tree of one file of python_files()."""
    return ast.parse((ROOT / file).read_text("utf-8"), str(file))


def module_name(file: Path) -> str:
    """Dotted name of a file relative to the root.

    >>> module_name(Path("serving/merge/__init__.py"))
    'serving.merge'
    """
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
