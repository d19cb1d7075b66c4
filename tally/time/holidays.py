"""The countries of ISO 3166-1, and the holidays of one or a part of it, from `holidays`."""

from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holidays import HolidayBase

# Otherwise it is that of the environment, and two machines would name one feast differently.
LANGUAGE = "en_US"
HolidayNames = tuple[str, ...]
# The suffix of a feast whose day is computed by the moon, and not yet proclaimed.
_ESTIMATED = " (estimated)"


def holiday_names(country: str | None, subdivision: str | None, day: date) -> HolidayNames:
    """The public holidays of this day in English, none on an ordinary day.

    `country` is a code of ISO 3166-1, `subdivision` one of subdivisions(). There are none without a
    country, and none without a table of that year.
    """
    if country is None:
        return ()
    return _load_year(country, subdivision, day.year).get(day, ())


def subdivisions(country: str) -> HolidayNames:
    """The names for parts of the country; none where it has no parts, or is not known."""
    known = _find_table(country)
    return (*known.subdivisions, *known.subdivisions_aliases) if known is not None else ()


def missing_reason(country: str | None, first: date, last: date) -> str | None:
    """The reason why holidays of these days are not known, as a sentence; None if all are known."""
    if country is None:
        return "the stores file names no `country` of the store, so no day is a holiday"
    known = _find_table(country)
    if known is None:
        return f"no table of holidays knows {country}, so no day is a holiday"
    if known.start_year <= first.year and last.year <= known.end_year:
        return None
    return (
        f"the holidays of {country} are known from {known.start_year} to {known.end_year},"
        " so no day of another year is one"
    )


# A country's year is computed in less than a millisecond, but requested for each of its days.
@lru_cache(maxsize=2_000)
def _load_year(country: str, subdivision: str | None, year: int) -> Mapping[date, HolidayNames]:
    known = _find_table(country, subdivision, year)
    if known is None:
        return {}
    return {
        day: tuple(name.removesuffix(_ESTIMATED) for name in known.get_list(day))
        # An observed day may lie in the adjacent year.
        for day in known
        if day.year == year
    }


def _find_table(
    country: str, subdivision: str | None = None, year: int | None = None
) -> "HolidayBase | None":
    # Not imported at the start: its tables take half a second, and most processes never need them.
    import holidays

    try:
        # A table that does not grow on access, for several threads read it at once.
        return holidays.country_holidays(
            country, subdiv=subdivision, years=year, expand=False, language=LANGUAGE
        )
    except NotImplementedError:
        return None


# The codes that the standard assigns: a user-assigned code such as XK is not among them.
_CODES = """
AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO
BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ
DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP
GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG
KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML
MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE
PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL
SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM
US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW
"""
COUNTRIES = frozenset(_CODES.split())
