"""What a view family's rows are computed by, as one digest: a change of it needs a higher epoch."""

import ast
from collections.abc import Iterable
from hashlib import blake2b

from tally.families import Family


def definition_digest(family: Family, transforms: Iterable[str], views: str) -> str:
    """Digest (128 bits, hex) of the code and the shape of one family's rows.

    `transforms` are the sources of what computes them in both layers, `views` the CQL of its
    tables. Comments, docstrings and layout do not change it; anything that could change a stored
    number does.
    """
    shape = repr((family.name, family.axes, family.parts))
    statements = "\n".join(" ".join(line.partition("--")[0].split()) for line in views.splitlines())
    told = (shape, *map(_code, transforms), statements)
    return blake2b("\0".join(told).encode(), digest_size=16).hexdigest()


def _code(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)
