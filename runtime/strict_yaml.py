"""YAML of files that people write: every scalar a text, and nothing that could be read two ways."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import yaml

_WIDTH = 100


class _Texts(yaml.BaseLoader):
    """Every scalar as its text: a store 0367 is not the number 247, and NO is not false."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """The next node. Raises ComposerError for an alias: a few of them make any size."""
        if self.check_event(yaml.AliasEvent):
            told = "an alias is not taken; write out what it stands for"
            raise yaml.composer.ComposerError(None, None, told, self.get_mark())
        found: yaml.Node | None = super().compose_node(parent, index)
        return found

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """The mapping. Raises ConstructorError for a key that stands there twice."""
        seen: set[str] = set()
        for key, _ in node.value:
            # YAML's own rule would keep the last, and a store would lose what the first one says.
            if str(key.value) in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} stands there twice; join the two", key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def yaml_texts(content: bytes) -> object:
    """The document as mappings, lists and texts; None of an empty one.

    Raises ValueError with the reason on one line for what is no UTF-8 or no YAML, has an alias or
    a key twice.
    """
    try:
        return yaml.load(content.decode(), Loader=_Texts)
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error


def yaml_lines(content: bytes) -> dict[str, int]:
    """In which line each field begins, a count from 1 on: by its name, `outer.inner` inside of one.

    Empty for what yaml_texts() refuses.
    """
    try:
        node = yaml.compose(content.decode(), Loader=_Texts)
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError):
        return {}
    return dict(_lines(node, "")) if isinstance(node, yaml.MappingNode) else {}


def yaml_written(told: Mapping[str, Any]) -> str:
    """The text that yaml_texts() reads as these mappings, lists and texts, a field a line."""
    # Short lists and mappings stay on the line of their name, as people write them.
    options: dict[str, Any] = {"default_flow_style": None, "sort_keys": False}
    text: str = yaml.dump(told, Dumper=_TextDumper, allow_unicode=True, width=_WIDTH, **options)
    return text


class _TextDumper(yaml.SafeDumper):
    """Without quotes where only another reader would take the text for a number or a flag."""


_TextDumper.yaml_implicit_resolvers = {}


def _lines(node: yaml.MappingNode, outer: str) -> Iterator[tuple[str, int]]:
    for key, value in node.value:
        name = f"{outer}{key.value}"
        yield name, key.start_mark.line + 1
        # Of fields in fields no problem speaks.
        if isinstance(value, yaml.MappingNode) and not outer:
            yield from _lines(value, f"{name}.")
