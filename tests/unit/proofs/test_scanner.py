"""The scanner of files finds what lies in them, also in Parquet and across the pieces that it
reads."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.odd import scanner
from tests.support.odd.barcodes import article_numbers
from tests.support.odd.scanner import Scan, scan_files

SECRET = {"e-mail": "ann@example.org"}


def test_value_is_found_in_a_file_whatever_its_case(tmp_path: Path) -> None:
    (tmp_path / "service.log").write_text("INFO Ann@Example.org bought milk")
    scan = Scan(SECRET)

    scan_files(scan, tmp_path)

    assert (scan.found, scan.files) == ({"e-mail": {"file service.log"}}, 1)


def test_value_across_two_pieces_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "CHUNK", 300)
    (tmp_path / "large").write_bytes(b"x" * 295 + b"ann@example.org" + b"x" * 500)
    scan = Scan(SECRET)

    scan_files(scan, tmp_path)

    assert scan.places() == {"file large"}


def test_value_in_compressed_parquet_is_found(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"value": ["milk " * 100, "for ann@example.org"]}),
        tmp_path / "part.parquet",
        compression="zstd",
    )
    scan = Scan(SECRET)

    scan_files(scan, tmp_path)

    assert scan.places() == {"file part.parquet"}


def test_partitions_of_the_topics_left_out_are_not_read(tmp_path: Path) -> None:
    for folder in ("raw-traffic-0", "traffic-0"):
        (tmp_path / "data" / folder).mkdir(parents=True)
        (tmp_path / "data" / folder / "0.log").write_text("ann@example.org")
    scan = Scan(SECRET)

    scan_files(scan, tmp_path, but=("raw-traffic",))

    assert scan.places() == {"file data/traffic-0/0.log"}


def test_article_numbers_have_right_check_digits() -> None:
    codes = article_numbers(1, 50)

    assert (len(codes), {len(code) for code in codes}) == (50, {13, 14})
    assert all(
        sum(int(d) * (3 if i % 2 else 1) for i, d in enumerate(reversed(code))) % 10 == 0
        for code in codes
    )
