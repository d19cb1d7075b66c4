"""The house limits of one Python file, measured on its syntax tree."""

import ast
from collections.abc import Iterator
from pathlib import Path

MAX_LINES, MAX_BODY_LINES, MAX_PARAMETERS, MAX_LINES_UNDOCUMENTED = 400, 50, 5, 3

Function = ast.FunctionDef | ast.AsyncFunctionDef


def beyond_limits(file: Path, text: str) -> list[str]:
    """What of the file is over a limit, one line each.

    Tests may have more parameters and no docstrings.
    """
    tree, is_test = ast.parse(text), file.parts[0] == "tests"
    lines = len(text.splitlines())
    found = [f"{file}: {lines} lines"] if lines > MAX_LINES else []
    for function in (node for node in ast.walk(tree) if isinstance(node, Function)):
        found += [
            f"{file}:{function.lineno}: {function.name} {what}"
            for what in _too_much(function, is_test)
        ]
    undocumented = (
        []
        if is_test
        else [function for function in public_functions(tree) if _lacks_docstring(function)]
    )
    return found + [
        f"{file}:{function.lineno}: {function.name} has no docstring" for function in undocumented
    ]


def _too_much(function: Function, is_test: bool) -> Iterator[str]:
    body, parameters = body_lines(function), _parameters(function)
    if body > MAX_BODY_LINES:
        yield f"has a body of {body} lines"
    if parameters > MAX_PARAMETERS and not is_test:
        yield f"takes {parameters} parameters"


def public_functions(node: ast.Module | ast.ClassDef) -> Iterator[Function]:
    """Functions and methods that another file can call; a function inside a function is nobody
    else's."""
    for inner in node.body:
        if isinstance(inner, ast.ClassDef):
            yield from public_functions(inner)
        elif isinstance(inner, Function) and not inner.name.startswith("_"):
            yield inner


def _lacks_docstring(function: Function) -> bool:
    return not ast.get_docstring(function) and body_lines(function) > MAX_LINES_UNDOCUMENTED


def body_lines(function: Function) -> int:
    """Lines from the first statement after the docstring to the last."""
    statements = (
        function.body[1:]
        if ast.get_docstring(function) and len(function.body) > 1
        else function.body
    )
    return (function.end_lineno or function.lineno) - statements[0].lineno + 1


def _parameters(function: Function) -> int:
    """Parameters that a caller has to know.

    Annotated[…] ones are options of a command line or an address: one each, by name.
    """
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return sum(
        parameter.arg not in ("self", "cls") and not _is_option(parameter) for parameter in given
    )


def _is_option(parameter: ast.arg) -> bool:
    annotation = parameter.annotation
    return (
        isinstance(annotation, ast.Subscript) and getattr(annotation.value, "id", "") == "Annotated"
    )
