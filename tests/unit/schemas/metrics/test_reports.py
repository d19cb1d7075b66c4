"""Files of reports that are wrong."""

from pathlib import Path

import pytest
import yaml

from schemas import loader
from schemas.source import BadSource

SALES = yaml.safe_load((loader.FOLDER / "reports" / "sales.yaml").read_text("utf-8"))


@pytest.mark.parametrize("metric", ["patience", "occupancy", "occupancy_residue"])
def test_report_of_no_metric_or_of_a_level_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metric: str
) -> None:
    # A level is of an instant: two days of it are not the sum of both.
    loader.metrics()
    (tmp_path / "reports").mkdir()
    file = tmp_path / "reports" / "sales.yaml"
    file.write_text(yaml.safe_dump({**SALES, "metric": metric}), "utf-8")
    monkeypatch.setattr(loader, "FOLDER", tmp_path)

    with pytest.raises(BadSource) as wrong:
        loader.reports.__wrapped__()

    assert str(wrong.value).startswith(f"{file}: metric: {metric!r}")
