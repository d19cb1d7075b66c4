"""The page of settings, generated from tally/config/settings.py."""

import re
from typing import Any, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from runtime.process.job import EXIT_FILE
from schemas.loader import SOURCES_VARIABLE, builtin_sources
from tally.config.lateness import lateness_variable
from tally.config.settings import Settings

HEADING = """# Settings

Made from `tally/config/settings.py` by `python -m ops.docs`; do not edit.

Each is an environment variable. Where one is not set, `TALLY_HOME/addresses.env` (written by
`tally up`) is looked into, then the default is taken. A value that does not fit ends the process
with one line that names the variable.

| variable | default | meaning |
|---|---|---|
"""
# Defaults that depend on the user are described by the rule that makes them.
RULES = {
    "cache": "`tally` in `XDG_CACHE_HOME`, else in `~/.cache`",
    "checkpoints": "`data/checkpoints` in `TALLY_HOME`",
}

ALONE_HEADING = """
## Of the environment alone

These are no settings: `addresses.env` is not looked into for them, a process is started with them.

| variable | meaning |
|---|---|
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
    rows = (
        _lateness() if name == LATENESS else _row(name, field)
        for name, field in Settings.model_fields.items()
    )
    alone = (f"| `{name}` | {meaning} |\n" for name, meaning in ALONE.items())
    return "".join([HEADING, *rows, ALONE_HEADING, *alone])


def variables() -> set[str]:
    """All environment variables on the page."""
    return set(re.findall(r"^\| `(TALLY_\w+)`", settings_page(), re.MULTILINE))


def _lateness() -> str:
    """One row for each source of the product; further sources have a variable of the same form."""
    return "".join(
        f"| `{lateness_variable(name)}` | `{source.lateness_seconds}` | seconds that"
        f" the speed layer keeps a {name} window open |\n"
        for name, source in builtin_sources().items()
    )


def _row(name: str, field: FieldInfo) -> str:
    meaning = field.description or ""
    choices = [f"`{choice}`" for choice in get_args(field.annotation) if isinstance(choice, str)]
    if choices:
        meaning += f"; one of {', '.join(choices)}"
    return (
        f"| `TALLY_{name.upper()}` | {RULES.get(name) or _default(field.default)} | {meaning} |\n"
    )


def _default(value: Any) -> str:
    return "–" if value is None or isinstance(value, SecretStr) else f"`{value}`"
