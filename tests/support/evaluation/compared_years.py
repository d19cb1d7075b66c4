"""What was told over drawn years beside what is true of them in the end."""

from collections import Counter
from datetime import date

from alerting.alert.ids import Chain
from tally.alerts.message import Alert
from tests.support.alerts.evaluated_years import EvaluatedYears
from tests.support.evaluation.drawn_years import instant_of, midnight, number_of


def differences(years: EvaluatedYears) -> tuple[int, list[str]]:
    """How many episodes were compared with what was published, and what differs."""
    compared, found = 0, []
    standing = [one for one in years.last.values() if one.state != "retracted"]
    ends = {one.of: one for one in standing if one.edge == "clear"}
    of_chains: dict[Chain, list[Alert]] = {chain: [] for chain in years.plan.chains()}
    for one in standing:
        if one.edge == "raise":
            of_chains[Chain(one.rule_id, one.store_id, one.subject)].append(one)
    for chain, raises in of_chains.items():
        left = {one.alert_id: one for one in raises}
        for episode in years.plan.episodes(chain):
            compared += 1
            inside = [one for one in left.values() if episode.contains(_window(one))]
            told = [(one.state, one.alert_id in ends) for one in inside]
            if told != [("confirmed", episode.ended is not None)]:
                found.append(f"{chain} {instant_of(number_of(episode.start))}: {told}")
            for one in inside:
                del left[one.alert_id]
        found += [f"{chain}: nothing calls for {one}" for one in left.values()]
    found += [f"provisional: {one}" for one in ends.values() if one.state != "confirmed"]
    return compared, found


def _window(alert: Alert) -> int:
    day, clock = alert.window.start[:10], alert.window.start[11:16]
    return midnight(date.fromisoformat(day)) + (int(clock[:2]) * 60 + int(clock[3:])) * 60_000


def kinds(years: EvaluatedYears) -> Counter[str]:
    """How many records of each kind the state has."""
    return Counter(key.decode()[0] for key in years.kept)
