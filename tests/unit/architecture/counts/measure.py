"""The house in numbers: `python -m tests.unit.architecture.counts.measure` prints them, with
`--check` it also fails beyond a limit, with `--silent` it names the functions that raise and do not
say so, with `--dense` the lines that hold too much.

The limits stand where the house is; whoever betters a
number lowers its limit; a new feature raises LINES by its own, and no other is raised.
"""

import argparse
import ast
import io
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median

from tests.unit.architecture.counts import language
from tests.unit.architecture.counts.imports import imported_modules
from tests.unit.architecture.counts.limits import Function, body_lines
from tests.unit.architecture.counts.number import Number, share
from tests.unit.architecture.counts.sources import PACKAGES, ROOT, module_name, parsed, python_files

WIDE, DENSE = 100, 25
# Modules of the longest chain of imports.
IMPORT_DEPTH = 24
# Of the product with its benchmarks.
LINES = 73_500
# Files and folders whose lines may be denser, each with the reason: tables of data. None is.
MAY_BE_DENSE: Mapping[str, str] = {}
# Parted, so that this line is none of them.
_SKIP = "# fmt: " + "skip"
_NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
Graph = Mapping[str, set[str]]


@cache
def numbers() -> list[Number]:
    """Every number of the product's code, tests apart; bench counts as product."""
    files = _product()
    bodies = [body_lines(one) for file in files for one in _functions(parsed(file))]
    lengths = [_length(file) for file in files if file.name != "__init__.py"]
    lines = [line for file in files for line in _text(file).splitlines()]
    tokens = [count for file in files for count in _tokens_by_line(_text(file)).values()]
    comments = sum(_comments(_text(file)) for file in files)
    packages = _arrows(files, lambda module: module.split(".")[0])
    tests = sum(_length(file) for file in python_files() if file.parts[0] == "tests")
    return [
        Number("modules", len(lengths)),
        Number("lines", sum(lengths), most=LINES),
        Number("file median", median(lengths)),
        Number("file p90", _p90(lengths)),
        Number("file max", max(lengths), most=400),
        Number("body median", median(bodies), most=8),
        Number("body p90", _p90(bodies), most=26),
        Number("body max", max(bodies), most=50),
        Number("line width p90", _p90([len(line) for line in lines if line])),
        Number(
            f"share of lines over {WIDE} columns, %",
            share(len(line) > WIDE for line in lines),
            most=0,
        ),
        Number(f"code lines over {DENSE} tokens", len(dense_lines(files)), most=0),
        Number("tokens a code line, median", median(tokens)),
        Number("`# fmt: skip`", sum(_SKIP in line for line in lines), most=0),
        Number("comments per 100 lines", 100 * comments / len(lines), least=3.9),
        Number(
            "docstrings of one line, %",
            share("\n" not in text for file in files for text in _docstrings(parsed(file))),
        ),
        Number("raising functions that do not say so, public", len(silent_raisers(files)), most=0),
        Number("arrows between packages", sum(len(to) for to in packages.values())),
        Number("circles of files", len(circles(_arrows(files, lambda module: module))), most=0),
        Number(
            "circles of folders",
            len(circles(_arrows(files, lambda module: module.rpartition(".")[0] or module))),
            most=0,
        ),
        Number("modules with a single importer, %", _single_importers(files)),
        Number("test lines a product line", tests / len(lines), least=0.8),
        *_rooms(files),
        *language.numbers(files),
    ]


def _rooms(files: Sequence[Path]) -> list[Number]:
    folders = Counter(file.parent for file in python_files())
    return [
        Number("Python files of a folder, tests too", max(folders.values()), most=12),
        Number("folders inside a room", max(len(file.parts) - 2 for file in files), most=4),
        Number(
            "import depth", import_depth(_arrows(files, lambda module: module)), most=IMPORT_DEPTH
        ),
    ]


def import_depth(graph: Graph) -> int:
    """Modules of the longest chain of imports, in a graph without circles.

    >>> import_depth({"a": {"b", "c"}, "b": {"c"}})
    3
    """

    @cache
    def depth(module: str) -> int:
        return 1 + max(map(depth, graph.get(module, ())), default=0)

    return max(map(depth, graph))


def _product() -> list[Path]:
    return [file for file in python_files() if file.parts[0] != "tests"]


def circles(graph: Graph) -> list[list[str]]:
    """Every knot of nodes that reach each other, each ascending, ascending."""
    found: list[list[str]] = []
    for start in sorted(graph):
        knot = sorted(node for node in _reached(graph, start) if start in _reached(graph, node))
        if len(knot) > 1 and knot not in found:
            found.append(knot)
    return found


def _reached(graph: Graph, start: str) -> set[str]:
    seen, waiting = set[str](), [start]
    while waiting:
        for following in graph.get(waiting.pop(), ()):
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return seen


def dense_lines(files: Sequence[Path], may: Mapping[str, str] = MAY_BE_DENSE) -> list[str]:
    """Code lines of more than DENSE tokens, outside of the files and folders that may have them."""
    return [
        f"{file}:{line}: {count} tokens"
        for file in files
        if not any(file.is_relative_to(place) for place in may)
        for line, count in sorted(_tokens_by_line(_text(file)).items())
        if count > DENSE
    ]


def silent_raisers(files: Sequence[Path]) -> list[str]:
    """Public functions with a `raise` of their own whose docstring does not say so."""
    return [
        f"{file}:{one.lineno}: {one.name}"
        for file in files
        for one in _functions(parsed(file))
        if not one.name.startswith("_") and _raises(one) and not _says_raises(one)
    ]


def _says_raises(function: Function) -> bool:
    text = ast.get_docstring(function) or ""
    return any(word in text for word in ("Raises", "raises", "Raise ", "raise "))


def _raises(function: Function) -> bool:
    return any(isinstance(node, ast.Raise) and node.exc is not None for node in _own(function))


def _own(function: Function) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function):
            waiting.extend(ast.iter_child_nodes(node))


def _arrows(files: Sequence[Path], room: Callable[[str], str]) -> dict[str, set[str]]:
    """Which rooms each room imports from; a room is what `room` makes of a module's name."""
    modules = {module_name(file) for file in python_files()}
    found: dict[str, set[str]] = defaultdict(set)
    for file in files:
        here = module_name(file)
        for there in imported_modules(here, parsed(file), modules):
            if room(there) != room(here):
                found[room(here)].add(room(there))
    return found


def _single_importers(files: Sequence[Path]) -> float:
    importers = Counter(
        to for some in _arrows(files, lambda module: module).values() for to in some
    )
    modules = [module_name(file) for file in files if file.name != "__init__.py"]
    return share(importers[module] == 1 for module in modules)


def _functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def _docstrings(tree: ast.Module) -> Iterator[str]:
    return (text for one in _functions(tree) if (text := ast.get_docstring(one)))


@cache
def _text(file: Path) -> str:
    return (ROOT / file).read_text("utf-8")


def _length(file: Path) -> int:
    return len(_text(file).splitlines())


def _tokens_by_line(text: str) -> Counter[int]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return Counter(token.start[0] for token in tokens if token.type not in _NOT_CODE)


def _comments(text: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(
        token.type == tokenize.COMMENT
        and not token.string.startswith(("# fmt", "# noqa", "# type"))
        for token in tokens
    )


def _p90(values: Sequence[int]) -> float:
    return sorted(values)[int(0.9 * len(values))]


def main() -> int:
    """Exit code 0 when every number is within its limits, or none was to be checked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="fail when a number is beyond its limit"
    )
    parser.add_argument(
        "--silent",
        action="store_true",
        help="name the public functions that raise and do not say so",
    )
    parser.add_argument("--dense", action="store_true", help="name the lines that hold too much")
    given = parser.parse_args()
    found = numbers()
    for one in found:
        limit = "".join(
            f"  {word} {bound:g}"
            for word, bound in (("at most", one.most), ("at least", one.least))
            if bound is not None
        )
        print(f"{one.name:<48} {one.value:>9,.1f}{limit}{'' if one.holds else '  <-- beyond'}")
    print(f"packages: {', '.join(PACKAGES)}")
    if given.silent:
        print("\n".join(silent_raisers(_product())))
    if given.dense:
        print("\n".join(dense_lines(_product())))
    return 1 if given.check and not all(one.holds for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
