"""The page of all rules, and the page of one rule: its versions and its episodes in a store."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from zoneinfo import ZoneInfo

from markupsafe import Markup
from nicegui import ui

from alerting.alert.ids import WHOLE_STORE
from alerting.queries.alerts import ListedAlert, window_start
from alerting.rules.rule import Rule, RuleVersion
from runtime.registry.sources import FAMILIES
from serving.questions import catalogue
from tally.errors import UnknownName
from tally.time.instants import from_millis, to_millis
from web.dashboard.alerts.markup import state_chip
from web.dashboard.rules import figure, markup
from web.dashboard.rules.figure import NotJudged, RuleFigure, RuleFigureSource, describe_rule
from web.dashboard.rules.markup import condition_text, health_text, rule_table
from web.dashboard.shared import addresses, frame, labels
from web.dashboard.shared import markup as shared_markup
from web.dashboard.shared.addresses import NEW_RULE, RULES, Period, rule_address, rule_edit_address
from web.dashboard.shared.frame import Frame, chart, html, keep_current, panel, show_frame
from web.dashboard.shared.labels import NOTHING, UnitStyle, instant_text
from web.dashboard.shared.markup import (
    Content,
    api_link,
    element,
    foot,
    link,
    note,
    scroll,
    subtitle,
)
from web.dashboard.shared.source import PageSelection, StoreChoice

REFRESH_SECONDS = 120.0
_SUBJECT = "What of it"
_EPISODES = ("Begins", "Ends", "Number", "Served", "Published")


async def show_rules(source: RuleFigureSource, selection: PageSelection) -> None:
    """Draw the page of all rules."""
    chosen, period = selection.chosen, selection.period
    top = Frame("rules", "Rules", period, lambda _store, _of: RULES, chosen)
    show_frame(replace(top, description="What calls for an alert"))
    with ui.element("main").classes("t-body"):
        await keep_current(source.rules, _show_list, REFRESH_SECONDS)


async def show_rule(source: RuleFigureSource, rule_id: str, selection: PageSelection) -> None:
    """Draw the page of one rule in a store; for an unknown id the page says that there is none."""
    chosen, period = selection.chosen, selection.period

    def address(store_id: str, address_period: Period) -> str:
        return rule_address(rule_id, address_period, store_id)

    top = Frame("rules", rule_id[:64], period, address, chosen, selection.stores)
    versions = await frame.load_or_say(
        source.repository.versions(rule_id),
        replace(top, description="Rules"),
        f"There is no rule {rule_id[:64]}",
        "The list above has those that there are.",
    )
    if versions is None:
        return
    show_frame(top)
    with ui.element("main").classes("t-body"):
        # The text is that of the newest version; a window is evaluated by the version of its time.
        draw = partial(show_rule_figure, rule=versions[-1].rule, chosen=chosen)
        load = partial(source.load_figure, rule_id, chosen.store, period)
        await keep_current(load, draw, REFRESH_SECONDS)

        async def load_health() -> Markup:
            return health_text(await source.health(rule_id, chosen.store), chosen.store.zone)

        # A rule that cannot be evaluated would look like a rule without any episodes.
        await keep_current(load_health, partial(_show_health, rule_id), REFRESH_SECONDS)
        edit = rule_edit_address(rule_id, period, chosen.store.store_id)
        _show_versions(rule_id, versions, edit)


def _show_health(rule_id: str, text: Markup) -> None:
    with panel("health"):
        html(
            element("h2", "Can it be judged?", id="health")
            + text
            + foot("Of all its stores: ", api_link(f"/v1/rules/{rule_id}/health"))
        )


def _show_list(rules: Sequence[RuleVersion]) -> None:
    # Retired rules stay listed because their alerts are still shown.
    living = [version for version in rules if not version.retired]
    others = [version for version in rules if version.retired]
    for name, title, versions in (("live", "In force", living), ("retired", "Retired", others)):
        with panel(name):
            html(element("h2", title, id=name))
            rows = scroll(rule_table(versions), aria_labelledby=name)
            html(rows if versions else subtitle("None."))
    new_rule, command = (
        link(NEW_RULE, "Write a new rule"),
        element("code", "tally rules apply FILE"),
    )
    html(foot(new_rule, ", or keep them as files: ", command, ". The same by HTTP: /v1/rules"))


def _show_versions(rule_id: str, versions: Sequence[RuleVersion], edit: str) -> None:
    with panel("versions"):
        html(
            element("h2", "Versions", id="versions")
            + scroll(markup.version_table(versions), aria_labelledby="versions")
            + note(link(edit, "Edit this rule"))
            + foot("The same by HTTP: ", api_link(f"/v1/rules/{rule_id}/versions"))
        )


def show_rule_figure(drawn: RuleFigure | NotJudged, rule: Rule, chosen: StoreChoice) -> None:
    """Draw a rule's chart in a store, how much of it is known, and a table of its episodes."""
    title = "What it calls for, and what was published"
    with panel(label=title):
        html(element("h2", title) + subtitle(f"{condition_text(rule)}, in {chosen.label}"))
        if not isinstance(drawn, RuleFigure):
            reasons = "it is not judged, is not about this store, or the store has never sent"
            html(note(f"Nothing: {reasons} all that it reads.", data_state="missing"))
            return
        zone = chosen.store.zone
        style = UnitStyle(_unit(rule), chosen.store.currency)
        # A rule about single articles has nothing to draw if no article calls for an alert.
        if drawn.simulated.values:
            # The chart needs a description, because a canvas has no text of its own.
            chart(figure.rule_chart(drawn, style, zone), f"{title}: {describe_rule(drawn)}")
        is_known = drawn.simulated.is_certain and not drawn.simulated.incomplete_days
        state = "complete" if is_known else "partial"
        html(note(_certainty_text(drawn), data_known="", data_state=state))
        # The table makes the episodes available to readers who cannot see the chart.
        if drawn.simulated.episodes:
            episodes = _episode_table(drawn, rule, zone, chosen.store.currency)
            html(scroll(episodes, aria_label="Episodes"))


def _episode_table(drawn: RuleFigure, rule: Rule, zone: ZoneInfo, currency: str) -> Markup:
    """A table of the episodes by the store's clock, each with the alerts that were sent for it."""
    # The subject has a column only if an episode is of a single article.
    has_subjects = any(found.subject != WHOLE_STORE for found in drawn.simulated.episodes)
    names = (_SUBJECT, *_EPISODES) if has_subjects else _EPISODES
    rows = []
    for found in drawn.simulated.episodes:
        # An alert belongs to the episode that contains its window, as in the evaluator.
        alerts = [
            alert
            for alert in drawn.published
            if (alert.edge, alert.subject) == ("raise", found.subject)
            and found.episode.contains(to_millis(window_start(alert)))
        ]
        ended = found.episode.ended
        # The number of a silence rule counts the events of its family.
        metric = rule.metric or rule.family or ""
        cells: list[Content] = [
            *([_subject_name(found.subject)] if has_subjects else []),
            instant_text(from_millis(found.episode.start), zone),
            "open" if ended is None else instant_text(from_millis(ended), zone),
            NOTHING if found.value is None else labels.number_text(metric, found.value, currency),
            "complete" if found.is_complete else "not complete",
            shared_markup.join(map(_alert_link, alerts), " ") or NOTHING,
        ]
        start, is_complete = found.episode.start, str(found.is_complete).lower()
        subject = found.subject
        rows.append(
            shared_markup.row(
                *cells, data_episode=start, data_complete=is_complete, data_subject=subject
            )
        )
    return shared_markup.table(names, rows)


def _subject_name(subject: str) -> str:
    """The subject of an episode or alert within the store, as text.

    >>> _subject_name("item:milk"), _subject_name("none")
    ('item:milk', 'all of it')
    """
    return "all of it" if subject == WHOLE_STORE else subject


def _alert_link(alert: ListedAlert) -> Markup:
    return link(
        addresses.alert_address(alert.alert_id), state_chip(alert.state), data_published=alert.state
    )


def _unit(rule: Rule) -> str:
    if rule.kind == "silence":
        return "events" if (rule.family or "") in FAMILIES else ""
    try:
        return catalogue.metric(rule.metric or "").entry.unit
    except UnknownName:
        return ""


def _certainty_text(drawn: RuleFigure) -> str:
    """How far the simulation is certain; it assumes that the rule had always been in force."""
    description = describe_rule(drawn)
    # Incomplete windows are counted in the text, and not only shown in grey in the chart.
    missing = sum(day.incomplete_windows for day in drawn.simulated.incomplete_days)
    sentences = [f"As if the rule had always been in force: {description}."]
    subjects = {episode.subject for episode in drawn.simulated.episodes}
    if left := subjects - drawn.simulated.values.keys():
        sentences.append(f"Of {len(left):,} more the table alone has the episodes.")
    if missing:
        sentences.append(f"{missing:,} quarter hours are not served complete, and raise nothing.")
    if not drawn.simulated.is_certain:
        sentences.append("An episode may have begun before: the days before do not show it.")
    return " ".join(sentences)
