"""`python -m ops.docs` writes the pages of docs/generated, and copies of what the sources say."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ops.docs.pages import render_all_sources, render_pages
from schemas.source import BadSource


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 when the files are written, 1 with one line on stderr for a wrong descriptor.

    Raises StackError when an application cannot print its OpenAPI document.
    """
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
