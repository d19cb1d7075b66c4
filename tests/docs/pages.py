"""The Markdown pages of the repository, and what they name."""

import re
from functools import cache
from pathlib import Path

import typer
from typer.main import get_command

from ops.cli.app import build_app
from tests.unit.architecture.counts.sources import PACKAGES

ROOT = Path(__file__).parents[2]
FOLDERS = (*PACKAGES, "docs")
_FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SHOWN = re.compile(r"^`([\w./-]+)`:\n\n```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|href|srcset)=\"([^\"]+)\"")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# A row of the code map: its folder, which a row that goes on with it leaves out, and what is there.
_FOLDER_ROW = re.compile(r"^\| (?:`([\w/]+/)`)? ?\| (.+) \|$", re.MULTILINE)


@cache
def pages() -> dict[str, str]:
    """Every Markdown page, by its path from the root."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return {str(page.relative_to(ROOT)): page.read_text("utf-8") for page in sorted(found)}


def code_of(text: str) -> list[str]:
    """Code blocks and code spans of a page."""
    return [*_FENCE.findall(text), *_INLINE.findall(_FENCE.sub("", text))]


def files_shown(text: str) -> dict[str, str]:
    """Content of each code block that stands under the name of a file alone."""
    return dict(_SHOWN.findall(text))


def links_of(text: str) -> list[str]:
    """Targets of links and pictures, those of HTML too; code left out."""
    plain = _INLINE.sub("", _FENCE.sub("", text))
    return [markdown or html for markdown, html in _LINK.findall(plain)]


def anchors_of(text: str) -> set[str]:
    """Anchors that a page's headings have, by GitHub's rule."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(_FENCE.sub("", text))
    }


def folder_rows(text: str) -> list[tuple[str, str]]:
    """What each row of a table of folders says, with its folder."""
    found: list[tuple[str, str]] = []
    for folder, told in _FOLDER_ROW.findall(text):
        if folder or found:
            found.append((folder or found[-1][0], told))
    return found


@cache
def file_names() -> frozenset[str]:
    """The name of every file, whatever its folder; of caches and environments none."""
    inside = (file for folder in FOLDERS for file in (ROOT / folder).rglob("*.*"))
    return frozenset(file.name for file in (*ROOT.glob("*.*"), *inside) if file.is_file())


@cache
def verbs() -> set[str]:
    """Verbs of the command line."""
    command = get_command(build_app())
    return set(command.commands) if isinstance(command, typer.core.TyperGroup) else set()


@cache
def make_targets() -> set[str]:
    """Targets of the Makefile."""
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
