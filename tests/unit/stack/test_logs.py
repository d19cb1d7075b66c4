"""Logs are bounded, and their writers notice nothing."""

from pathlib import Path

from ops.local.stack.watcher import OLD_LOGS, rotate_logs


def test_log_beyond_its_size_begins_anew_with_its_past_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "speed.log"
    with file.open("a") as writer:
        for text in ("first ", "second ", "third "):
            print(text * 20, file=writer, flush=True)
            rotate_logs(tmp_path, most_bytes=100)
        print("now", file=writer, flush=True)

    assert [(tmp_path / f"speed.log.{number}").read_text()[:6].strip() for number in (1, 2, 3)] == [
        "third",
        "second",
        "first",
    ]
    assert file.read_text() == "now\n"


def test_log_at_its_size_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "speed.log").write_bytes(b"x" * 100)

    rotate_logs(tmp_path, most_bytes=100)

    assert [path.name for path in tmp_path.iterdir()] == ["speed.log"]


def test_oldest_goes_and_progress_lines_are_kept_short_too(tmp_path: Path) -> None:
    file = tmp_path / "speed-progress-sales.jsonl"
    for number in range(OLD_LOGS + 3):
        file.write_text(f"{number} " * 100)
        rotate_logs(tmp_path, most_bytes=100)

    kept = sorted(path.name for path in tmp_path.iterdir())

    assert kept == [
        file.name,
        *(f"{file.name}.{number}" for number in range(1, OLD_LOGS + 1)),
    ]
    assert (tmp_path / f"{file.name}.{OLD_LOGS}").read_text().startswith("3 ")


def test_rotated_log_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "gateway.log"
    file.write_text("x" * 200)
    file.chmod(0o600)

    rotate_logs(tmp_path, most_bytes=100)

    assert (tmp_path / "gateway.log.1").stat().st_mode & 0o777 == 0o600
