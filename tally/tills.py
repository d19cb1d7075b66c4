"""What a till's conflicts of one day tell: numbers that began again, or single mistakes."""

# Conflicts and their share in percent, both of which have to be reached: of many receipts, and of a
# small till most of its day. Below, two receipts of one number are a mistake of a moment.
_LIMITS = ((20, 10), (3, 50))


def numbers_begin_again(records: int, conflicts: int) -> bool:
    """Whether so many of a till's records of a day are conflicts that its numbers began again.

    That is 20 and 10 % of them, or 3 and half of them.
    """
    return any(
        conflicts >= least and conflicts * 100 >= percent * records for least, percent in _LIMITS
    )


def conflicts_text(records: int, conflicts: int) -> str:
    """What has happened and what to do, as part of a line."""
    counted = f"{conflicts:,} of its {records:,} records of the day bear numbers used before"
    if numbers_begin_again(records, conflicts):
        cure = "if its numbers begin again, give the store `numbering: daily` or `yearly`"
        return f"{counted}; {cure} in the stores file"
    return f"{counted}, with other content; `tally conflicts` shows and accepts them"
