"""Spark columns of what can be counted in a canonical record.

Any change of what they compute needs a higher `epoch` in the sources' descriptors.
"""

from collections.abc import Callable, Sequence
from functools import cache, reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tally.algebra.parts import MAX_PART
from tally.families.family import MAX_TEXT_BYTES, Family, RecordFields
from tally.time.day_clock import MAX_KEY_DAYS

# The length of the longest key period, with a day in reserve for changes of clocks.
_MAX_MINUTES = (MAX_KEY_DAYS + 1) * 24 * 60
# The column of a field.
Field = Callable[[str], Column]


def field_names(kind: str, families: Sequence[Family]) -> list[str]:
    """The `texts`, or `numbers`, that the rows of any of the families are made of, each once."""
    return list(dict.fromkeys(name for family in families for name in getattr(family.fields, kind)))


def number_columns(families: Sequence[Family]) -> list[Column]:
    """The numbers that the rows of any of the families are made of; 0 where one may be missing.

    In:  columns of parse_record().
    Out: bigint, each by its name; null where it has to be there and is not.
    """
    named = {name: family.fields for family in families for name in family.fields.numbers}
    columns = []
    for name, fields in named.items():
        columns.append(_number(name, F.col, fields).alias(name))
    return columns


def is_readable(value: Column, family: Family) -> Column:
    """Whether a canonical record can be counted.

    It is JSON in UTF-8; identity, fingerprint, axes and an instant of the years 1 to 9999 are
    there; so is every part, within bounds.

    In:  value string (canonical JSON), or anything else: text, bytes that are no UTF-8, null.
    Out: boolean, never null.
    """
    # exists(array(…)): each record is parsed once.
    return is_utf8(value) & F.exists(
        F.array(parse_record(value, family)),
        lambda event: _is_complete(family.fields, lambda name: event[name]),
    )


def parse_record(value: Column | str, *families: Family) -> Column:
    """The fields of a record, null where it has none.

    In:  value string (canonical JSON), or anything else.
    Out: struct of identity, texts (string), numbers (bigint) and repeat (boolean).
    """
    texts = ("store_id", "event_id", "happened_at", "fingerprint", *field_names("texts", families))
    fields = [T.StructField(name, T.StringType()) for name in texts]
    fields += [T.StructField(name, T.LongType()) for name in field_names("numbers", families)]
    fields.append(T.StructField("repeat", T.BooleanType()))
    return F.from_json(value, T.StructType(fields))


def is_utf8(value: Column | str) -> Column:
    """Whether the value is valid UTF-8 text.

    In:  value string, of any bytes.
    Out: boolean, never null.
    """
    return F.coalesce(F.is_valid_utf8(value), F.lit(False))


# A column belongs to no frame and no session; building a large one takes hundreds of calls to Java.
@cache
def are_complete(fields: RecordFields) -> Column:
    """Whether the columns of these names can be counted, by the same rule as is_readable().

    In:  columns store_id, event_id, happened_at, fingerprint and the fields.
    Out: boolean, never null.
    """
    return _is_complete(fields, F.col)


def _is_complete(fields: RecordFields, field: Field) -> Column:
    texts = [
        F.octet_length(field(name)) <= MAX_TEXT_BYTES
        for name in ("store_id", "event_id", "fingerprint", *fields.texts)
    ]
    limits = -MAX_PART, MAX_PART
    numbers = [_number(name, field, fields).between(*limits) for name in fields.numbers]
    forms = [field(name).rlike(pattern) for name, pattern in fields.patterns]
    if "period_start" in fields.numbers:
        forms.append(_is_in_its_period(field))
    in_calendar = F.year(parse_timestamp(field("happened_at"))).between(1, 9999)
    holds = reduce(Column.__and__, [in_calendar, *texts, *numbers, *forms])
    return F.coalesce(holds, F.lit(False))


def _number(name: str, field: Field, fields: RecordFields) -> Column:
    # Records that are older than the number lack it.
    number = field(name)
    return F.coalesce(number, F.lit(0)) if name in fields.optional else number


def _is_in_its_period(field: Field) -> Column:
    # The state of a period without an end would be kept for ever.
    minute = F.floor(F.unix_seconds(parse_timestamp(field("happened_at"))) / 60)
    start, end = field("period_start"), field("period_end")
    return (start <= minute) & (minute < end) & (end <= start + _MAX_MINUTES)


def parse_timestamp(text: Column) -> Column:
    """The instant of a text of RFC 3339.

    In:  text string.
    Out: timestamp (UTC), null where it is none.
    """
    # Spark would turn a bare time of day into an instant of today.
    return F.when(text.like("____-__-__T%"), text.try_cast("timestamp"))
