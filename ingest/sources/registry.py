"""Every source's conversion and vendors' formats: Python files of its folder, found by name.

A source of the product is a package below ingest/sources; one of a folder of TALLY_SOURCES is
loaded from its path, and may import `ingest.contract` and `tally`.
"""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TypeAlias, cast

from ingest.contract.arrival import Arrival, Rules
from ingest.contract.vendor import Cutter, Greeting, Messages, VendorForm, refuse_unread
from schemas import loader
from schemas.source import BadSource, Source
from tally.events import CanonicalEvent

Conversion: TypeAlias = Callable[[bytes | None, Arrival, Rules], CanonicalEvent]
Divider: TypeAlias = Callable[[CanonicalEvent], Sequence[CanonicalEvent]]

_OWN = Path(__file__).parent


@cache
def conversions() -> dict[str, Conversion]:
    """By source, which is also the view family: its message to its canonical event.

    Raises BadSource.
    """
    return {name: conversion_of(source) for name, source in loader.sources().items()}


def raw_topics() -> dict[str, str]:
    """Raw topic to the source, which is also its canonical topic. Raises BadSource."""
    return {source.raw_topic: name for name, source in loader.sources().items()}


def conversion_of(source: Source) -> Conversion:
    """`normalised` of the source's contract.py, for all but what stands for a part of a body that
    could not be read, which is refused for that. Raises BadSource."""
    normalised = cast(Conversion, _named(source, source.folder / "contract.py", "normalised"))

    def converted(message: bytes | None, arrival: Arrival, rules: Rules) -> CanonicalEvent:
        refuse_unread(message, rules.max_bytes)
        return normalised(message, arrival, rules)

    return converted


def splits() -> dict[str, Divider]:
    """By source how one of its events is cut into records that lie in one window each, where its
    contract.py has a function `shares`.

    Raises BadSource.
    """
    modules = {
        name: _loaded(source, source.folder / "contract.py")
        for name, source in loader.sources().items()
    }
    return {
        name: cast(Divider, module.shares)
        for name, module in modules.items()
        if hasattr(module, "shares")
    }


def vendors_of(source: Source) -> dict[str, VendorForm]:
    """By format, the name of its file in `vendors/`: its `messages`, `greeting` and `parts`.

    Raises BadSource.
    """
    return {name: _form(source, file) for name, file in source.formats.items()}


def _form(source: Source, file: Path) -> VendorForm:
    messages = cast(Messages, _named(source, file, "messages"))
    loaded = _loaded(source, file)
    greeting, parts = (getattr(loaded, name, None) for name in ("greeting", "parts"))
    return VendorForm(messages, cast(Greeting | None, greeting), cast(Cutter | None, parts))


def _named(source: Source, file: Path, name: str) -> Callable[..., object]:
    found = getattr(_loaded(source, file), name, None)
    if not callable(found):
        raise BadSource(f"{file}: no function `{name}`")
    return cast(Callable[..., object], found)


def _loaded(source: Source, file: Path) -> ModuleType:
    try:
        return _module(source, file)
    # Whatever somebody's file does when it is run: one line must name it.
    except Exception as error:
        raise BadSource(f"{file}: cannot be loaded: {error}") from error


def _module(source: Source, file: Path) -> ModuleType:
    # By its package, so that there is one module of it: its types would else be there twice.
    if file.is_relative_to(_OWN):
        return import_module(".".join(("ingest.sources", *_below(file, _OWN))))
    name = ".".join(("tally_source", source.name, *_below(file, source.folder)))
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError("is no Python file")
    module = module_from_spec(spec)
    # Named before it is run: the types of its annotations are looked up there.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        # Half a module must not be what the next one to ask is given.
        del sys.modules[name]
        raise
    return module


def _below(file: Path, folder: Path) -> tuple[str, ...]:
    return file.relative_to(folder).with_suffix("").parts
