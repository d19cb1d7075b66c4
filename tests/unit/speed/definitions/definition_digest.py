"""A digest of the code that computes a view family's rows.

Rows of one epoch are compared by how many events they have seen, so two different computations
under one epoch would mix, window by window, unnoticed. RECORDED holds the digest of each family
with its epoch. After a change that can change a number, raise the family's epoch; after one that
cannot (a rename), keep it. Then record anew: `python -m
tests.unit.speed.definitions.definition_digest`.

The digest of a family covers the transforms of both layers, the module of its kind, and only those
part classes that it uses: a new kind of part for one family does not touch the others.
"""

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path

from runtime.process.files import REPOSITORY
from runtime.registry.sources import FAMILIES
from schemas import loader
from tally.families.family import Family

# By family the epoch, and the digest of what its rows are computed by.
RECORDED = Path(__file__).with_name("definitions.json")
# What computes the rows of every family, by its path from the root of the project.
TRANSFORMS = (
    "tally/spark/frames.py",
    "tally/spark/record_columns.py",
    "speed_layer/state/records.py",
    "speed_layer/state/partition_windows.py",
)
PARTS = ("tally/algebra/parts.py", "tally/algebra/level.py")
FOLDS = "tally/spark/part_columns.py"
KINDS = "tally/families/kind.py"
# Of these files only what decides a stored number: what a record is known by, how long a window is,
# which records are left out, which copy is the first.
DECIDE = {
    "tally/algebra/merge.py": {"register"},
    "tally/families/family.py": {"MAX_TEXT_BYTES"},
    "speed_layer/views.py": {"operator_input", "_skip_reason", "MAX_AHEAD"},
    "tally/time/windows.py": {"WINDOW_SECONDS", "WINDOW_MILLIS"},
    "batch_layer/views/compute/classification.py": {"classify_records", "window_members"},
    "batch_layer/views/compute/chains.py": {"chain_verdicts"},
    "tally/events/receipt_rules.py": {"LAST_REVISION"},
    "tally/events/identity.py": {"REVERSAL", "VERSION", "REFERENCE", "CONTENT"},
}
# What makes the rows of a derived family of its records, by the name of its reading.
READ_BY = {
    "presence": (
        "tally/people/visits.py",
        "tally/families/epochs.py",
        "tally/people/heard.py",
        "tally/people/presence.py",
        "speed_layer/state/presence.py",
        "speed_layer/state/presence_pages.py",
        "speed_layer/state/operator.py",
        "batch_layer/views/compute/presence.py",
    )
}
Sources = Mapping[str, str]


def recorded() -> dict[str, dict[str, int | str]]:
    """By family its epoch and digest as they are recorded."""
    found: dict[str, dict[str, int | str]] = json.loads(RECORDED.read_bytes())
    return found


def current(families: Iterable[Family]) -> dict[str, dict[str, int | str]]:
    """By family its epoch and digest as the code is now."""
    return {
        family.name: {"epoch": family.epoch, "digest": digest_of(family)} for family in families
    }


def digest_of(family: Family) -> str:
    """The digest of the family as the code is now (hex)."""
    return definition_digest(family, sources(REPOSITORY), tables_of(family))


def tables_of(family: Family) -> list[str]:
    """The CREATE TABLE statements of the family's two tables."""
    tables = {family.speed_table, family.batch_table}
    statements = loader.table_statements()
    return [statement for statement in statements if loader.table_name(statement) in tables]


def sources(root: Path) -> dict[str, str]:
    """Text by path of all that a definition hangs on, under the root of the project."""
    readings = (file for files in READ_BY.values() for file in files)
    names = (*TRANSFORMS, *PARTS, FOLDS, KINDS, *DECIDE, *readings)
    return {name: (root / name).read_text("utf-8") for name in names}


def definition_digest(family: Family, code: Sources, tables: Iterable[str]) -> str:
    """Digest (128 bits, hex) of the code and the shape of one family's rows.

    `code` is sources(), `tables` the CQL of the family's tables. Comments, docstrings and layout do
    not change it; anything that could change a stored number does.
    """
    parts = [(type(part).__name__, part.name) for part in family.parts]
    named = family.name, family.axes, parts, family.kind.name
    shape = repr((*named, *_reading(family)))
    classes = {name for name, _ in parts}
    reading = READ_BY[family.reading.name] if family.reading else ()
    whole = (*TRANSFORMS, *reading)
    deciding = (_needed(names, code[file]) for file, names in DECIDE.items())
    # What is not the family's own (another kind, another part) is left out: its change is no change
    # of these rows.
    told = [
        shape,
        *(_whole(code[name]) for name in whole),
        *(text for texts in deciding for text in texts),
        *_needed(classes, *(code[file] for file in PARTS)),
        *_needed({type(family.kind).__name__}, code[KINDS]),
        *_needed({"Fold", *_folds(code[FOLDS], classes)}, code[FOLDS]),
        *(" ".join(statement.split()) for statement in tables),
    ]
    return blake2b("\0".join(told).encode(), digest_size=16).hexdigest()


def _reading(family: Family) -> tuple[object, ...]:
    # Nothing of the families that have none: what was recorded of them stays.
    return (family.reading,) if family.reading else ()


def _folds(source: str, classes: set[str]) -> Iterator[str]:
    """The functions that FOLDS names for these classes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "FOLDS":
            assert isinstance(node.value, ast.Dict)
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if isinstance(key, ast.Name) and key.id in classes:
                    yield ast.unparse(value)


# Most files belong to every family: parsed once.
@cache
def _whole(source: str) -> str:
    return _code(ast.parse(source))


@cache
def _statements(source: str) -> tuple[ast.stmt, ...]:
    return tuple(ast.parse(source).body)


def _needed(names: set[str], *modules: str) -> list[str]:
    """The code of these top-level names of the modules, and of all that they use of them."""
    statements = (node for source in modules for node in _statements(source))
    defined = {name: node for node in statements for name in _defines(node)}
    found: dict[str, ast.stmt] = {}
    waiting = sorted(names)
    while waiting:
        name = waiting.pop()
        if name in defined and name not in found:
            found[name] = defined[name]
            nodes = ast.walk(defined[name])
            used = (one.id for one in nodes if isinstance(one, ast.Name))
            waiting += sorted(set(used))
    return [_code(found[name]) for name in sorted(found)]


def _defines(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [
        one.id
        for target in targets
        if target
        for one in ast.walk(target)
        if isinstance(one, ast.Name)
    ]


def _code(tree: ast.AST) -> str:
    for node in ast.walk(tree):
        # An empty field that Python 3.12 has and 3.11 has not: the record is for both.
        if not getattr(node, "type_params", True):
            vars(node).pop("type_params", None)
        if (
            isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(current(FAMILIES.values()), indent=2) + "\n")
