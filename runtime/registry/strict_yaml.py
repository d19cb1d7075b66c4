"""Strict YAML for hand-written files: every scalar is a text, and nothing is ambiguous."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import yaml


class _Texts(yaml.BaseLoader):
    """Loader that keeps every scalar as text: store 0367 is not the number 247, NO is not false."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """The next node. Raises ComposerError for an alias: a few could expand to any size."""
        if self.check_event(yaml.AliasEvent):
            problem = "an alias is not taken; write out what it stands for"
            raise yaml.composer.ComposerError(None, None, problem, self.get_mark())
        found: yaml.Node | None = super().compose_node(parent, index)
        return found

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """The mapping. Raises ConstructorError for a duplicate key."""
        seen: set[str] = set()
        for key, _ in node.value:
            # YAML's own rule keeps the last: a store would lose the values of the first.
            if str(key.value) in seen:
                problem = f"{key.value} stands there twice; join the two"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def parse_yaml(content: bytes) -> object:
    """The document as mappings, lists and texts; None for an empty one.

    Raises ValueError with the reason on one line for a document that is no UTF-8 or no YAML, or has
    an alias or a duplicate key.
    """
    try:
        return yaml.load(content.decode(), Loader=_Texts)
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error


def find_yaml_lines(content: bytes) -> dict[str, int]:
    """The line number, counted from 1, at which each field begins, by the field's name.

    A nested field is named `outer.inner`. Empty for a document that parse_yaml() refuses.
    """
    try:
        node = yaml.compose(content.decode(), Loader=_Texts)
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError):
        return {}
    return dict(_lines(node, "")) if isinstance(node, yaml.MappingNode) else {}


def dump_yaml(document: Mapping[str, Any]) -> str:
    """The text that parse_yaml() reads as these mappings, lists and texts, one field per line."""
    # Short lists and mappings stay on the line of their name, as in hand-written files.
    options: dict[str, Any] = {"default_flow_style": None, "sort_keys": False, "width": 100}
    text: str = yaml.dump(document, Dumper=_TextDumper, allow_unicode=True, **options)
    return text


class _TextDumper(yaml.SafeDumper):
    """Dumper that leaves texts unquoted which only other readers take for numbers or flags."""


_TextDumper.yaml_implicit_resolvers = {}


def _lines(node: yaml.MappingNode, outer: str) -> Iterator[tuple[str, int]]:
    for key, value in node.value:
        name = f"{outer}{key.value}"
        yield name, key.start_mark.line + 1
        # No error refers to fields nested deeper than this.
        if isinstance(value, yaml.MappingNode) and not outer:
            yield from _lines(value, f"{name}.")
