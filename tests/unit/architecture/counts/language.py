"""The language of the product in numbers: names of functions, loop variables, words in prose."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.unit.architecture.counts.number import Number, share
from tests.unit.architecture.counts.sources import ROOT, parsed

# Words that the field does not use in such sentences.
ARCHAIC = re.compile(r"\b(nobody|somebody|whoever|told|anew)\b", re.IGNORECASE)
# Participles that do not end with -ed. Words that are verbs too (`read`, `set`, `run`, `split`) are
# no such names.
_PARTICIPLES = re.compile(
    r"been|begun|bent|bound|broken|brought|built|caught|chosen|dealt|done|drawn|driven"
    r"|eaten|fallen|felt|flown|forbidden|forgotten|fought|frozen|given|gone|grown|had"
    r"|heard|held|hidden|kept|known|laid|lent|lost|made|meant|met|paid|rung|said|seen|sent"
    r"|shown|sold|sought|spent|spoken|spun|stolen|struck|stuck|sung|swept|taken|taught"
    r"|thought|thrown|told|torn|understood|woken|won|worn|written"
)
# They end like participles.
_VERBS = ("embed", "exceed", "feed", "need", "proceed", "seed", "speed", "succeed")


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def begins_with_participle(name: str) -> bool:
    """Whether a function's name says what was done in place of what it does.

    >>> begins_with_participle("_kept_rows"), begins_with_participle("keep_rows")
    (True, False)
    """
    first = name.strip("_").split("_")[0]
    return bool(_PARTICIPLES.fullmatch(first)) or (first.endswith("ed") and first not in _VERBS)


def ends_with_of(name: str) -> bool:
    """Whether a function's name is `of`, or ends so.

    >>> ends_with_of("rows_of"), ends_with_of("offset")
    (True, False)
    """
    bare = name.strip("_")
    return bare == "of" or bare.endswith("_of")


def loops_over_one(tree: ast.Module) -> int:
    """How many loops and comprehensions bind the variable `one`."""
    targets = (
        node.target
        for node in ast.walk(tree)
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension)
    )
    return sum(
        isinstance(name, ast.Name) and name.id == "one"
        for target in targets
        for name in ast.walk(target)
    )


def archaic_per_thousand(texts: Iterable[str]) -> float:
    """Archaic words in 1,000 words of these texts.

    >>> archaic_per_thousand(["nobody is told"])
    666.6666666666666
    """
    words = archaic = 0
    for text in texts:
        words += len(text.split())
        archaic += len(ARCHAIC.findall(text))
    return 1000 * archaic / max(1, words)


def docstrings(tree: ast.Module) -> Iterator[str]:
    """The docstrings of the module, its classes and its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text


def documents() -> list[str]:
    """The texts of all documents, but for those that are generated."""
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/adr").glob("*.md")]
    return [file.read_text("utf-8") for file in sorted(files)]


def product_prose(files: Iterable[Path]) -> Iterator[str]:
    """The docstrings of these files, and their comments that have a line of their own."""
    for file in files:
        yield from docstrings(parsed(file))
        lines = (line.strip() for line in (ROOT / file).read_text("utf-8").splitlines())
        yield from (line for line in lines if line.startswith("#"))


def numbers(files: Sequence[Path]) -> list[Number]:
    """The numbers of the language in these files and in the documents."""
    trees = [parsed(file) for file in files]
    names = [function.name for tree in trees for function in functions(tree)]
    texts = [*product_prose(files), *documents()]
    return [
        Number(
            "functions that begin with a participle, %",
            share(map(begins_with_participle, names)),
            most=2,
        ),
        Number("functions `of` or `*_of`, %", share(map(ends_with_of, names)), most=1),
        Number("loops that bind `one`", sum(map(loops_over_one, trees)), most=0),
        Number(
            "archaic words in 1,000 words of prose",
            archaic_per_thousand(texts),
            most=0.3,
        ),
    ]
