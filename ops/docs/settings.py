"""The page of settings, generated from tally/config/settings.py."""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import SecretStr

from ops.docs.markdown import table
from runtime.process.job import EXIT_FILE
from schemas.loader import SOURCES_VARIABLE, builtin_sources
from tally.config.lateness import lateness_variable
from tally.config.settings import Settings

HEADING = """# Settings

Made from `tally/config/settings.py` by `python -m ops.docs`; do not edit.

Each is an environment variable. Where one is not set, `TALLY_HOME/addresses.env` (written by
`tally up`) is looked into, then the default is taken. A value that does not fit ends the process
with one line that names the variable.

"""
# Defaults that depend on the user are described by the rule that makes them.
RULES = {
    "cache": "`tally` in `XDG_CACHE_HOME`, else in `~/.cache`",
    "checkpoints": "`data/checkpoints` in `TALLY_HOME`",
}

ALONE_HEADING = """
## Of the environment alone

These are no settings: `addresses.env` is not looked into for them, a process is started with them.

"""
ALONE = {
    # Not a setting: Spark's Python workers need the sources, and no settings reach them.
    SOURCES_VARIABLE: "folders of further sources, each with a source.yaml; `:` between several",
    # Not a setting: invalid settings are reported in this file too.
    EXIT_FILE: "file that takes why a job has ended by itself; its starter sets it",
}
# The field with one variable per family.
LATENESS = "lateness"


def settings_page() -> str:
    """The page as Markdown, one row per setting, in the order of the class."""
    alone = table(("variable", "meaning"), ((f"`{name}`", ALONE[name]) for name in ALONE))
    settings = table(("variable", "default", "meaning"), _rows())
    return "".join([HEADING, settings, ALONE_HEADING, alone])


def variables() -> set[str]:
    """All environment variables on the page."""
    return {variable.strip("`") for variable, *_ in _rows()} | {*ALONE}


def _rows() -> Iterator[tuple[str, str, str]]:
    for name, field in Settings.model_fields.items():
        if name == LATENESS:
            # One row for each source of the product; further sources have a variable like these.
            for source, content in builtin_sources().items():
                meaning = f"seconds that the speed layer keeps a {source} window open"
                default = f"`{content.lateness_seconds}`"
                yield f"`{lateness_variable(source)}`", default, meaning
            continue
        meaning = field.description or ""
        choices = [f"`{choice}`" for choice in get_args(field.annotation) if type(choice) is str]
        if choices:
            meaning += f"; one of {', '.join(choices)}"
        yield f"`TALLY_{name.upper()}`", RULES.get(name) or _default(field.default), meaning


def _default(value: Any) -> str:
    return "–" if value is None or isinstance(value, SecretStr) else f"`{value}`"
