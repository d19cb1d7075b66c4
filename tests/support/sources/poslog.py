"""A receipt, as a message of contracts has it, written as a till that speaks POSLog 6 would."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from xml.sax.saxutils import escape

STATUSES = {
    "suspended": "Suspended",
    "cancelled": "Canceled",
    "voided": "TransactionVoided",
    "revised": "Revision",
}
ITEM_TYPES = {
    "gift_card_sold": "GiftCertificate",
    "deposit": "Deposit",
    "deposit_refund": "DepositRefund",
    "fee": "Fee",
}
PAID = ("tender", "change", "gift_card_redeemed")


def poslog(message: Mapping[str, Any]) -> str:
    """The transaction. A void that knows when its receipt was closed is that receipt sent again as
    post-voided; any other names it by a link. A revision says no number."""
    voids = message.get("voids", {})
    is_again = "happened_at" in voids
    number = voids["transaction_id"] if is_again else message["transaction_id"]
    ended = voids["happened_at"] if is_again else message["happened_at"]
    said = "revised" if "revision" in message else message.get("transaction_status", "")
    status = "PostVoided" if is_again else STATUSES.get(said)
    link = "" if is_again or not voids else _link(voids)
    lines = "".join(map(_line, message["transactions"]))
    return (
        f'<Transaction TrainingModeFlag="{str(message.get("training", False)).lower()}">'
        f"<BusinessUnit><UnitID>{message['operation_id']}</UnitID></BusinessUnit>"
        f"<WorkstationID>{message['vendor_fiscal_module']}</WorkstationID>"
        f"<SequenceNumber>{number}</SequenceNumber><EndDateTime>{ended}</EndDateTime>"
        f'<RetailTransaction TransactionStatus="{status or "Finished"}">{link}{lines}'
        "</RetailTransaction></Transaction>"
    )


def _link(voids: Mapping[str, Any]) -> str:
    return (
        '<TransactionLink ReasonCode="Voided">'
        f"<WorkstationID>{voids['vendor_fiscal_module']}</WorkstationID>"
        f"<SequenceNumber>{voids['transaction_id']}</SequenceNumber></TransactionLink>"
    )


def _line(line: Mapping[str, Any]) -> str:
    kind, amount = line.get("line_type", "item"), Decimal(str(line["amount"]))
    total = Decimal(str(line.get("total", Decimal(line["price"]) * amount)))
    if kind in PAID:
        return f"<LineItem><Tender><Amount>{total}</Amount></Tender></LineItem>"
    if kind == "rounding":
        return f"<LineItem><Tender><Rounding>{total}</Rounding></Tender></LineItem>"
    if kind == "tip":
        return f"<LineItem><Tender><Tip>{total}</Tip></Tender></LineItem>"
    if kind == "tax":
        return f"<LineItem><Tax><Amount>{total}</Amount></Tax></LineItem>"
    is_back = amount < 0
    # Amounts are without a sign: goods that come back lower it, and so does what is subtracted.
    action = ' Action="Subtract"' if total and (total < 0) != is_back else ""
    goods = "Return" if is_back else "Sale"
    return (
        f'<LineItem CancelFlag="{str(line.get("cancelled", False)).lower()}">'
        f'<{goods} ItemType="{ITEM_TYPES.get(kind, "Stock")}">'
        f"<Description>{escape(line['item'])}</Description>"
        f"<ExtendedAmount{action}>{abs(total)}</ExtendedAmount>"
        f"<Quantity>{abs(amount)}</Quantity></{goods}></LineItem>"
    )
