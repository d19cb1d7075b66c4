"""What a till's conflicts of one day mean: numbers that began again, or single mistakes."""

# Conflicts and their share in percent; both have to be reached. The first pair is for a till with
# many receipts, the second for a small till. Below, two receipts of one number are a mistake.
_LIMITS = ((20, 10), (3, 50))


def has_restarted_numbers(records: int, conflicts: int) -> bool:
    """Whether so many of a till's records of a day are conflicts that its numbers began again.

    The limits are 20 conflicts that are 10 % of the records, or 3 that are half of them.
    """
    return any(
        conflicts >= least and conflicts * 100 >= percent * records for least, percent in _LIMITS
    )


def describe_conflicts(records: int, conflicts: int) -> str:
    """A text that says what has happened and what to do, as part of a line."""
    counted = f"{conflicts:,} of its {records:,} records of the day bear numbers used before"
    if has_restarted_numbers(records, conflicts):
        cure = "if its numbers begin again, give the store `numbering: daily` or `yearly`"
        return f"{counted}; {cure} in the stores file"
    return f"{counted}, with other content; `tally conflicts` shows and accepts them"
