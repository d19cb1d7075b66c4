"""The places of a text that identify a person, or a means of payment.

These are cards, bank accounts, addresses of people and devices, and phones.

Every pattern looks at each character a bounded number of times, and at most MAX_FINDS candidates
are checked: a text of any content takes time linear in its length. Texts are bytes as Latin-1, so
that a broken message is searched like a good one.
"""

import re
from collections.abc import Iterator

from stdnum import ean, luhn
from stdnum.iso7064 import mod_97_10

# A text with more candidates than this is no message: its rest counts as personal, unread.
MAX_FINDS = 5_000
Span = tuple[int, int]

_GAP = r"(?:[ ./_-]{1,2}|\xc2\xa0)?+"
# As cards are printed: 4-4-4-4(-3), 4-6-5, or in one piece. A digit or a decimal point in front
# belongs to another number.
_CARD = re.compile(
    rf"[2-6](?<!\d.)(?<!\d\..)(?=\d{{3}}{_GAP}"
    rf"(?:\d{{4}}{_GAP}\d{{4}}{_GAP}\d{{1,4}}(?:{_GAP}\d{{1,3}})?|\d{{6}}{_GAP}\d{{4,5}})(?!\d))",
    re.ASCII | re.DOTALL,
)
_GROUP = re.compile(rf"(\d+){_GAP}", re.ASCII)
# Numbers of the issuers in use, with their lengths: Visa, Mastercard, Amex, Diners, JCB, Mir,
# Maestro, Discover, UnionPay.
_ISSUED = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}"
    r"|3(?:0[0-59]|[689]\d)\d{11,16}|35\d{14,17}|(?:5[06-8]|6\d)\d{14,17}",
    re.ASCII,
)
_IBAN = re.compile(
    r"\d\d(?<=[A-Za-z]{2}..)(?<![A-Za-z0-9].{4})(?=((?:[ ._-]?[A-Za-z0-9]){11,30}))",
    re.ASCII | re.DOTALL,
)
# Characters of an account number by country: ISO 13616, and countries that use its form without
# being registered, which stdnum.iban does not know.
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO",
        16: "BE",
        18: "DK FK FI FO GL NL SD",
        19: "MK SI",
        20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM SO TL",
        24: "AD CZ DZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BF BI CF CG CM DJ FR GA GR IT MC MG MR SM",
        28: "AL AZ BJ BY CI CY DO GT HU LB ML NI PL SN SV",
        29: "BR EG MZ PS QA UA",
        30: "JO KW MU YE",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
    for country in countries.split()
}

# Each of these starts at the character that is rare in other texts, and looks back from there.
_LOCAL_PART = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._%+'-" + "".join(
    map(chr, range(0x80, 0x100))
)
_DOMAIN = re.compile(
    r"@(?<=[A-Za-z0-9._%+'\x80-\xff-]@)[A-Za-z0-9\x80-\xff-]++(?:\.[A-Za-z0-9\x80-\xff-]++)+"
)
_MAX_LOCAL_PART = 256
_DEVICE = re.compile(
    r"[:-](?<=[0-9A-Fa-f]{2}.)(?<![0-9A-Fa-f]{3}.)[0-9A-Fa-f]{2}"
    r"([:-])[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2}){3}(?![0-9A-Fa-f])"
)
_DOTTED_DEVICE = re.compile(
    r"\.(?<=[0-9A-Fa-f]{4}.)(?<![0-9A-Fa-f]{5}.)[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}(?![0-9A-Fa-f])"
)
_PHONE = re.compile(
    r"\+(?<![\dA-Za-z].)(?:\(?\d[ ()./-]{0,2}+){7,14}\d(?!\d)", re.ASCII | re.DOTALL
)
# Without a plus only in groups, as people write it: in one piece it may be a price or a barcode.
_LOCAL_PHONE = re.compile(
    r"[(02-9](?<![\w.,+-].)(?=\d)(?:(?<=0)0[1-9]\d{0,2}[ /-](?:\d[ /-]?){6,11}\d"
    r"|(?<=0)[1-9](?:[ .-]\d{2}){4}"
    r"|(?:(?<=\()0\d{2,4}\)[ /-]?|(?<=0)\d{2,4}[ /-])(?:\d{5,8}|\d{3,4}[ -]\d{3,5})"
    r"|(?:(?<=\()[2-9]\d{2}\)[ .-]?|(?<=[2-9])\d{2}[ .-])\d{3}[ .-]\d{4})(?!\d)",
    re.ASCII | re.DOTALL,
)

_BARCODE_LENGTHS = (8, 12, 13, 14)
_BARCODE_NAMES = r"(?:item|item_id|product_id|article|barcode|ean|gtin|upc|sku|plu)"
_BARCODE_BEFORE = re.compile(rf'{_BARCODE_NAMES}\\*"\s*+:\s*+\\*"?\Z', re.IGNORECASE)
_BARCODE_NAME = re.compile(_BARCODE_NAMES, re.IGNORECASE)


def remove_personal_data(text: str, mark: str) -> str:
    """The text with the mark for every card, account, e-mail or device address, and phone."""
    # Long numbers first: a phone number that is found inside one would leave its rest readable.
    for find in (_find_accounts, _find_cards, _find_addresses):
        text = replace_spans(text, find(text), mark)
    for device, ahead in ((_DEVICE, 2), (_DOTTED_DEVICE, 4)):
        matches = device.finditer(text)
        found = ((match.start() - ahead, match.end()) for match in matches)
        text = replace_spans(text, found, mark)
    return _LOCAL_PHONE.sub(mark, _PHONE.sub(mark, text))


def replace_spans(text: str, spans: Iterator[Span], mark: str) -> str:
    """The text with the mark in place of each span; spans ascend by start, and may overlap."""
    pieces, end = [], 0
    for start, stop in spans:
        if start >= end:
            pieces += [text[end:start], mark]
        end = max(end, stop)
    return "".join([*pieces, text[end:]]) if pieces else text


def is_barcode(text: str) -> bool:
    """Whether the text is a GTIN of 8, 12, 13 or 14 digits with a right check digit.

    >>> is_barcode("4006381333931"), is_barcode("4006381333932"), is_barcode("milk")
    (True, False, False)
    """
    return text.isascii() and text.isdigit() and ean.is_valid(text)


def is_barcode_name(name: str) -> bool:
    """Whether a field of this name is expected to hold barcodes.

    >>> is_barcode_name("ean"), is_barcode_name("note")
    (True, False)
    """
    return _BARCODE_NAME.fullmatch(name) is not None


def _find_cards(text: str) -> Iterator[Span]:
    for number, match in enumerate(_CARD.finditer(text)):
        if number == MAX_FINDS:
            yield match.start(), len(text)
            return
        if end := _find_card_end(text, match.start()):
            yield match.start(), end


def _find_card_end(text: str, start: int) -> int:
    """The end of the card that begins here, at the end of a group of digits; 0 if there is none."""
    digits, place, end = "", start, 0
    while group := _GROUP.match(text, place):
        if len(digits) + len(group[1]) > 19:
            break
        digits, place = digits + group[1], group.end()
        if _ISSUED.fullmatch(digits) and luhn.is_valid(digits):
            end = group.end(1)
    is_article = end - start in _BARCODE_LENGTHS and is_barcode(text[start:end])
    is_named = is_article and _BARCODE_BEFORE.search(text[max(0, start - 40) : start])
    return 0 if is_named else end


def _find_accounts(text: str) -> Iterator[Span]:
    for number, match in enumerate(_IBAN.finditer(text)):
        if number == MAX_FINDS:
            yield match.start(), len(text)
            return
        if end := _find_account_end(text, match.start() - 2, match.end(1)):
            yield match.start() - 2, end


def _find_account_end(text: str, start: int, most: int) -> int:
    length = _IBAN_LENGTHS.get(text[start : start + 2].upper(), 99)
    written = [place for place in range(start, most) if text[place].isalnum()]
    places = written[:length]
    account = "".join([text[place] for place in places]).upper()
    is_account = len(account) == length and mod_97_10.is_valid(account[4:] + account[:4])
    return places[-1] + 1 if is_account else 0


def _find_addresses(text: str) -> Iterator[Span]:
    for number, match in enumerate(_DOMAIN.finditer(text)):
        before = text[max(0, match.start() - _MAX_LOCAL_PART) : match.start()]
        yield (
            match.start() - len(before) + len(before.rstrip(_LOCAL_PART)),
            match.end() if number < MAX_FINDS else len(text),
        )
        if number == MAX_FINDS:
            return
