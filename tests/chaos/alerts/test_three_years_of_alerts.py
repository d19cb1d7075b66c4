"""Three simulated years, a tick for each quarter hour: twelve rules of every kind at five stores,
with late data, restatements, gaps, closures, retirements, resolutions and restarts."""

from collections import Counter
from pathlib import Path

import pytest

from alerting.evaluate.state.chain_memory import ChainMemory
from alerting.evaluate.verdicts import evaluation_pass
from tally.time.instants import DAY_MILLIS
from tests.controls.processes.forgetful_memory import settle_by_window
from tests.support.alerts.evaluated_years import EvaluatedYears, patch_reading
from tests.support.evaluation.compared_years import differences, kinds
from tests.support.evaluation.drawn_years import A_DAY, Plan


def lived(plan: Plan, folder: Path, patch: pytest.MonkeyPatch) -> EvaluatedYears:
    """The years at their end."""
    years = EvaluatedYears(plan, folder)
    patch_reading(years, patch)
    try:
        years.run()
    finally:
        years.evaluator.close()
    return years


def test_three_years_a_tick_for_each_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    years = lived(Plan(seed=47, days=1096, back=380), tmp_path, monkeypatch)

    compared, found = differences(years)
    reasons = Counter(one.reason for one in years.alerts if one.reason)
    with capsys.disabled():
        print(
            f"\n{years.ticks:,} ticks, {len(years.alerts):,} messages, {compared:,} episodes"
            f" compared, {len(found)} differ; reasons {dict(reasons)}; state {dict(kinds(years))},"
            f" bytes each half year {years.sizes}"
        )
    assert years.ticks >= 1096 * A_DAY
    assert found == []
    assert compared > 3_000
    assert {"rule", "closed", "delisted", "resolved", "late_data"} <= reasons.keys()
    # All that is remembered was there after the horizon of 430 days.
    assert years.sizes[5] < 1.3 * years.sizes[2]


def test_years_with_short_horizons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)

    years = lived(Plan(seed=1, days=60, back=8), tmp_path, monkeypatch)

    compared, found = differences(years)
    assert found == []
    assert compared > 200


def test_memory_that_forgets_by_window_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch)
    monkeypatch.setattr(ChainMemory, "compact", settle_by_window)

    with pytest.raises(AssertionError, match="after"):
        lived(Plan(seed=1, days=60, back=8), tmp_path, monkeypatch)


def shorten(patch: pytest.MonkeyPatch) -> None:
    """Ten days are evaluated and twelve remembered, in place of 400 and 430."""
    patch.setattr(evaluation_pass, "EVALUATION_MILLIS", 10 * DAY_MILLIS)
    patch.setattr(evaluation_pass, "RETENTION_MILLIS", 12 * DAY_MILLIS)
