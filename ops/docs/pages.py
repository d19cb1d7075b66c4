"""All generated pages and copies, and the functions that make them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from ops.docs.api import api_page
from ops.docs.asyncapi import asyncapi_text
from ops.docs.described import api_document, gateway_document
from ops.docs.metrics import metrics_page
from ops.docs.rules import rule_copies, rules_page
from ops.docs.settings import settings_page
from ops.docs.sources import copies, sources_page
from runtime.process.repository import REPOSITORY
from schemas.loader import builtin_sources, sources

FOLDER = REPOSITORY / "docs" / "generated"
PAGES: Mapping[str, Callable[[], str]] = {
    "asyncapi.json": asyncapi_text,
    "api.md": lambda: api_page(api_document(), gateway_document()),
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
