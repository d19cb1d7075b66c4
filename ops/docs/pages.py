"""All generated pages and copies, and the functions that make them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from ops.docs.api import api_page
from ops.docs.asyncapi import asyncapi_text
from ops.docs.metrics import metrics_page
from ops.docs.rules import rule_copies, rules_page
from ops.docs.settings import settings_page
from ops.docs.sources import copies, sources_page
from runtime.process.repository import REPOSITORY
from schemas.loader import SOURCES_VARIABLE, builtin_sources, sources
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
    return pages | copies(builtin_sources()) | rule_copies()


def render_all_sources(out: Path) -> dict[Path, str]:
    """The pages of all sources, those of TALLY_SOURCES included, under another folder."""
    page = out / "docs" / "generated" / "sources.md"
    return {page: sources_page(sources())} | copies(sources(), out)


def read_openapi(module: str) -> dict[str, Any]:
    """The document that an application prints. Raises StackError when its process fails.

    A separate process, because the code of serving and of operations do not import each other.
    """
    ended = subprocess.run(
        [sys.executable, "-m", module],
        cwd=REPOSITORY,
        # The pages describe the product: a further source has no file in the repository to link to.
        env={name: value for name, value in os.environ.items() if name != SOURCES_VARIABLE},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        reason = (ended.stderr.strip().splitlines() or ["no word"])[-1]
        raise StackError(f"python -m {module}: {reason}; mend it and write the pages again")
    return cast(dict[str, Any], json.loads(ended.stdout))
