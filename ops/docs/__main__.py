"""`python -m ops.docs` writes the pages of docs/generated, and copies of what the sources say."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ops.docs.api import api_page
from ops.docs.asyncapi import asyncapi_text
from ops.docs.reference import (
    metrics_page,
    rule_copies,
    rules_page,
    settings_page,
    source_copies,
    sources_page,
)
from runtime.process.files import REPOSITORY
from schemas.loader import SOURCES_VARIABLE, builtin_sources, sources
from schemas.source import BadSource
from tally.errors import StackError

FOLDER = REPOSITORY / "docs" / "generated"
# The modules that print the OpenAPI documents of our applications.
APPLICATIONS = ("web.api.openapi", "ingest.gateway.openapi")
PAGES: Mapping[str, Callable[[], str]] = {
    "asyncapi.json": asyncapi_text,
    "api.md": lambda: api_page(*map(read_openapi, APPLICATIONS)),
    "metrics.md": metrics_page,
    "rules.md": rules_page,
    "settings.md": settings_page,
    "sources.md": sources_page,
}


def render_pages() -> dict[Path, str]:
    """The content of every generated file for readers of the repository, by path."""
    pages = {FOLDER / name: made() for name, made in PAGES.items()}
    return pages | source_copies(builtin_sources()) | rule_copies()


def render_all_sources(out: Path) -> dict[Path, str]:
    """The pages of all sources, those of TALLY_SOURCES included, under another folder."""
    page = out / "docs" / "generated" / "sources.md"
    return {page: sources_page(sources())} | source_copies(sources(), out)


def read_openapi(module: str) -> dict[str, Any]:
    """The document that an application's own process prints. Raises StackError if it fails."""
    # The pages describe the product: a further source has no file in the repository to link to.
    ours = {name: value for name, value in os.environ.items() if name != SOURCES_VARIABLE}
    command = [sys.executable, "-m", module]
    ended = subprocess.run(
        command, cwd=REPOSITORY, env=ours, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        reason = (ended.stderr.strip().splitlines() or ["no word"])[-1]
        raise StackError(f"python -m {module}: {reason}; mend it and write the pages again")
    return cast(dict[str, Any], json.loads(ended.stdout))


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 when the files are written, 1 with one line on stderr for a wrong descriptor."""
    parser = argparse.ArgumentParser(prog="python -m ops.docs", description=__doc__)
    parser.add_argument(
        "--out", type=Path, help="write what follows from all sources into this folder instead"
    )
    out = parser.parse_args(argv).out
    try:
        files = render_pages() if out is None else render_all_sources(out)
    except BadSource as error:
        print(f"sources: {error}", file=sys.stderr)
        return 1
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
