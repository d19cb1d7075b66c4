"""Article numbers with their check digits."""

import random


def article_numbers(seed: int, count: int) -> list[str]:
    """Distinct EAN-13 and GTIN-14, in turn, with right check digits."""
    chance, made = random.Random(seed), set[str]()
    while len(made) < count:
        digits = 12 + len(made) % 2
        made.add(_with_check_digit(str(chance.randrange(10 ** (digits - 1), 10**digits))))
    return sorted(made)


def _with_check_digit(digits: str) -> str:
    weighted = sum(
        int(digit) * (3 if place % 2 == 0 else 1) for place, digit in enumerate(reversed(digits))
    )
    return digits + str(-weighted % 10)
