"""Rules that wait for each other: what does not fit between them is named."""

from alerting.rules.rule import Rule
from alerting.rules.rule_file import find_contradictions
from tests.unit.alerting.rules.rules import rule


def waiting(**unless: str) -> dict[str, Rule]:
    """Rules by id, each with the ids that it waits for, comma between."""
    return {
        rule_id: rule(rule_id=rule_id, unless=named.split(",") if named else [])
        for rule_id, named in unless.items()
    }


def test_rules_that_wait_for_each_other_in_a_circle_are_refused() -> None:
    found = find_contradictions(waiting(a="b", b="c", c="a", d="a"))

    assert [*found] != ["d"] and len(found) == 1
    [[problem]] = found.values()
    assert "is a circle, and each waits for the other; break it" in problem


def test_a_circle_over_rules_in_force_is_named_by_the_new_rule() -> None:
    assert find_contradictions(waiting(a="b"), waiting(b="c", c="a")) == {
        "a": ["unless: a → b → c → a is a circle, and each waits for the other; break it"]
    }


def test_a_circle_that_others_have_made_hides_no_other_and_is_nobody_s_fault() -> None:
    made = waiting(x="y", y="x", b="a")

    assert find_contradictions(waiting(n="x"), made) == {}
    assert [*find_contradictions(waiting(a="b"), made)] == ["a"]


def test_a_rule_that_is_not_there_is_waited_for_in_vain() -> None:
    alone = waiting(a="b")

    assert find_contradictions(alone) == {}
    assert find_contradictions(alone, waiting(b="")) == {}
    assert find_contradictions(alone, {}) == {
        "a": ["unless: there is no rule b in force; apply it too, or first"]
    }


def test_a_chain_of_ten_thousand_rules_is_no_circle() -> None:
    long = {f"r{one}": rule(rule_id=f"r{one}", unless=[f"r{one + 1}"]) for one in range(10_000)}
    whole = {**long, "r10000": rule(rule_id="r10000")}

    assert find_contradictions(whole, {}) == {}
    closed = {**whole, "r10000": rule(rule_id="r10000", unless=["r0"])}
    [[problem]] = find_contradictions(closed, {}).values()
    assert "…" in problem and len(problem) < 200
