"""Finds every source's conversion and vendors' formats: Python files in its folder, by name.

A source of the product is a package below ingest/sources; a source in a folder of TALLY_SOURCES is
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

from ingest.contract.vendor import Messages, VendorFormat, refuse_placeholder
from ingest.installation.arrival import Arrival, Rules
from schemas import loader
from schemas.source import BadSource, Source
from tally.events.identity import CanonicalEvent

Conversion: TypeAlias = Callable[[bytes | None, Arrival, Rules], CanonicalEvent]
EventSplitter: TypeAlias = Callable[[CanonicalEvent], Sequence[CanonicalEvent]]

_PACKAGE_FOLDER = Path(__file__).parent


@cache
def conversions() -> dict[str, Conversion]:
    """The conversion from message to canonical event, by source. Raises BadSource."""
    return {name: load_conversion(source) for name, source in loader.sources().items()}


def raw_topics() -> dict[str, str]:
    """The source, which is also its canonical topic, by raw topic. Raises BadSource."""
    return {source.raw_topic: name for name, source in loader.sources().items()}


def load_conversion(source: Source) -> Conversion:
    """The `normalise` of a source's contract.py, which gets no placeholder. Raises BadSource."""
    normalise = cast(Conversion, _find_function(source, source.folder / "contract.py", "normalise"))

    def convert(message: bytes | None, arrival: Arrival, rules: Rules) -> CanonicalEvent:
        refuse_placeholder(message, rules.max_bytes)
        return normalise(message, arrival, rules)

    return convert


def event_splitters() -> dict[str, EventSplitter]:
    """Functions that cut an event into records of one window, by source. Raises BadSource."""
    sources = loader.sources().values()
    modules = {source.name: _load(source, source.folder / "contract.py") for source in sources}
    return {name: module.shares for name, module in modules.items() if hasattr(module, "shares")}


def load_vendor_formats(source: Source) -> dict[str, VendorFormat]:
    """The vendors' formats of a source, by the name of their file. Raises BadSource."""
    formats = {}
    for name, file in source.formats.items():
        messages, loaded = _find_function(source, file, "messages"), _load(source, file)
        optional = (getattr(loaded, each, None) for each in ("greeting", "parts"))
        formats[name] = VendorFormat(cast(Messages, messages), *optional)
    return formats


def _find_function(source: Source, file: Path, name: str) -> Callable[..., object]:
    function = getattr(_load(source, file), name, None)
    if not callable(function):
        raise BadSource(f"{file}: no function `{name}`")
    return cast(Callable[..., object], function)


def _load(source: Source, file: Path) -> ModuleType:
    try:
        return _module(source, file)
    # Running a foreign file may fail in any way; a one-line error must name the file.
    except Exception as error:
        raise BadSource(f"{file}: cannot be loaded: {error}") from error


def _module(source: Source, file: Path) -> ModuleType:
    # Imported by its package name, because a second module would define its types a second time.
    if file.is_relative_to(_PACKAGE_FOLDER):
        return import_module(".".join(("ingest.sources", *_module_names(file, _PACKAGE_FOLDER))))
    name = ".".join(("tally_source", source.name, *_module_names(file, source.folder)))
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError("is no Python file")
    module = module_from_spec(spec)
    # Registered before it is run, because the types of its annotations are looked up there.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        # The next caller must not get a half-initialised module.
        del sys.modules[name]
        raise
    return module


def _module_names(file: Path, folder: Path) -> tuple[str, ...]:
    return file.relative_to(folder).with_suffix("").parts
