"""Arrows between packages that no import shows: a file that is read or named by its path, a module
that is started as a process."""

import ast
import re
from collections.abc import Container, Iterator

from tests.unit.architecture.counts.imports import may_import
from tests.unit.architecture.counts.sources import PACKAGES

# Which packages a module names so that it may not import, and why.
NAMES: dict[str, dict[str, str]] = {
    "tally.events.money": {"schemas": "which currencies there are, with their decimals, is data"},
    "schemas.loader": {"ingest": "a source's descriptor lies in its own folder, with its code"},
    "ops.cli.jobs": {
        "ingest": "the command becomes the job, of which it imports nothing",
        "batch_layer": "the command becomes the job, of which it imports nothing",
    },
    "ops.recovery": {
        "batch_layer": "each step is a job of its own, started as a process",
        "speed_layer": "each step is a job of its own, started as a process",
    },
    "ops.docs.api": {"ingest": "the page has a link to the schema of a source's message"},
    "ops.docs.__main__": {
        "ingest": "the gateway tells of its addresses in a process of its own",
        "web": "the API tells of its addresses in a process of its own",
    },
    "ops.local.services.catalogue": {
        "ingest": "gateway and normalisers are started as services",
        "speed_layer": "its jobs are started as services",
        "batch_layer": "the master ingest is started as a service",
        "alerting": "its processes are started as services",
        "inventory": "its processes are started as services",
        "dags": "Airflow is told where they lie",
    },
}
_PATH = re.compile(r"[\w.-]+(/[\w.-]+)+/?|[\w.-]+/")


def packages_named(module: str, tree: ast.Module, modules: Container[str]) -> set[str]:
    """Packages of ours that the module may not import, and names as a path or a module's name.

    A path is one by its form, or because it is joined to another with `/`.
    """
    named = {text.split("/")[0] for text in _paths(tree)}
    named |= {text.split(".")[0] for text in _texts(tree) if "." in text and text in modules}
    others = (named & {*PACKAGES}) - {module.split(".")[0]}
    return {package for package in others if not may_import(module, package)}


def _paths(tree: ast.Module) -> Iterator[str]:
    yield from (text for text in _texts(tree) if _PATH.fullmatch(text))
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield from _texts(node.right)


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
