"""`python -m ops.docs_settings` writes docs/generated/settings.md from tally/settings.py.

A test says when that is due.
"""

import sys
from pathlib import Path
from typing import Any, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from tally.settings import Settings

FILE = Path(__file__).parents[1] / "docs" / "generated" / "settings.md"
HEADING = """# Settings

Made from `tally/settings.py` by `python -m ops.docs_settings`; do not edit.

Each is an environment variable. Where one is not set, `TALLY_HOME/addresses.env` (written by
`tally up`) is looked into, then the default is taken. A value that does not fit ends the process
with one line that names the variable.

| variable | default | meaning |
|---|---|---|
"""
# Defaults that depend on the user are told as the rule that makes them.
RULES = {
    "cache": "`tally` in `XDG_CACHE_HOME`, else in `~/.cache`",
    "checkpoints": "`data/checkpoints` in `TALLY_HOME`",
}


def main() -> int:
    """0; the file is written."""
    FILE.write_text(settings_page(), "utf-8")
    return 0


def settings_page() -> str:
    """The page as Markdown, one row a setting, in the order of the class."""
    return HEADING + "".join(_row(name, field) for name, field in Settings.model_fields.items())


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


if __name__ == "__main__":
    sys.exit(main())
