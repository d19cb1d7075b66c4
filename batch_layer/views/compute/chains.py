"""Receipt chains: the events that belong to one receipt, and their order.

The rules are those of tally/events/receipt_rules.py, written as columns. DataFrame in, DataFrame
out.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from batch_layer.links.linker import DAYS_AFTER, DAYS_BEFORE
from tally.events.identity import REFERENCE, REVERSAL, VERSION
from tally.events.receipt_rules import CANCELLATION, LAST_REVISION

_PREFIX = rf"^(?:{REVERSAL}(?:[0-9]+:)?|{VERSION}(?:[0-9]+|[+-][0-9a-f]{{32}}):)"
_NUMBER = rf"^(?:{REVERSAL}|{VERSION})([0-9]{{1,9}}):"
_TO_REFERENCE = f"{REVERSAL}%{REFERENCE}:%"


def chain_verdicts(master: DataFrame) -> DataFrame:
    """The verdict on each event of the receipts that have versions or voids.

    Such receipts are few, and the other records are not shuffled for them.

    In:  master records of one family: store_id, event_id, happened_at, event_date, partition,
         offset, value.
    Out: a row for each first copy of an event of such a receipt: partition, offset; beaten_by
         struct<offset, event_date>: the earliest arrival among the events behind it in its chain,
         because of which it does not count, null for the last one; is_void boolean; has_receipt
         boolean: the chain is not of voids alone.
    """
    references = receipts_by_reference(master)
    placed = _place_events(master)
    # Names of receipts with versions or voids, without leading zeros in their number.
    named = placed.where("is_void OR is_version").select("store_id", "loose")
    referred = references.select("store_id", _without_zeros("receipt").alias("loose"))
    wanted = named.union(referred).distinct()
    related = placed.join(F.broadcast(wanted), on=["store_id", "loose"], how="left_semi")
    # Only the first copy counts, even if the others differ.
    firsts = _first_copies(related)
    chain = Window.partitionBy("store_id", "chain")
    # The order of tally.events.receipt_rules.rank(), reversed: every row before a row beats it.
    order = ("revision", "is_void", "happened_at", "kind", "offset")
    backwards = chain.orderBy(*(F.col(name).desc() for name in order))
    beating = F.min(F.struct("offset", "event_date")).over(
        backwards.rowsBetween(Window.unboundedPreceding, -1)
    )
    # A cancellation has no number: it beats each version that was closed no later than it.
    ending = F.when(F.col("kind") == CANCELLATION, F.struct("offset", "event_date"))
    no_sooner = chain.orderBy(F.col("happened_at").desc())
    cancelling = F.min(ending).over(no_sooner.rangeBetween(Window.unboundedPreceding, 0))
    is_version = ~F.col("is_void") & (F.col("kind") != CANCELLATION)
    cancelled = F.when(is_version, cancelling)
    return _resolve_chains(firsts, references).select(
        "partition",
        "offset",
        "is_void",
        F.least(beating, cancelled).alias("beaten_by"),
        F.max(~F.col("is_void")).over(chain).alias("has_receipt"),
    )


def _place_events(master: DataFrame) -> DataFrame:
    """The readable records with their place in a chain, parsed from their identities.

    Out: store_id, event_id, happened_at, event_date, partition, offset; is_void, is_version
         boolean; revision int, kind int as in ChainPosition; named: the event that it refers to;
         loose: the same without leading zeros in the number.
    """
    event_id = F.col("event_id")
    is_void, is_version = event_id.startswith(REVERSAL), event_id.startswith(VERSION)
    is_one = is_void | is_version
    number = F.regexp_extract(event_id, _NUMBER, 1)
    said = F.nullif(number, F.lit("")).cast("int")
    # A void without a number comes after all versions.
    of_all = F.when(is_void, F.lit(LAST_REVISION))
    revision = F.when(is_one, F.coalesce(said, of_all))
    sign = F.when(is_version, F.substring(event_id, len(VERSION) + 1, 1))
    corrected = F.when(sign == "+", 1)
    kind = corrected.when(sign == "-", CANCELLATION).otherwise(0)
    readable = master.where("event_id IS NOT NULL").select(
        "store_id", "event_id", "happened_at", "event_date", "partition", "offset"
    )
    return readable.withColumns(
        {
            "is_void": is_void,
            "is_version": is_version,
            "revision": F.coalesce(revision, F.lit(0)),
            "kind": kind,
            "named": F.when(is_one, F.regexp_replace(event_id, _PREFIX, "")).otherwise(event_id),
        }
    ).withColumn("loose", _without_zeros("named"))


def _resolve_chains(firsts: DataFrame, references: DataFrame) -> DataFrame:
    """Each event with the chain that it belongs to; for a void, the receipt that it means.

    That is the receipt of exactly this name; else the only one that is equal but for leading zeros
    in its number, or the only one that its reference names.

    In:  as _place_events(); references: receipts_by_reference().
    Out: the same and chain.
    """
    known = firsts.join(F.broadcast(references), on=["store_id", "named"], how="left")
    alike, equal = (Window.partitionBy("store_id", name) for name in ("loose", "named"))
    receipt = F.when(~F.col("is_void"), F.col("named"))
    least = F.min(receipt).over(alike)
    most = F.max(receipt).over(alike)
    is_named = F.max(~F.col("is_void")).over(equal)
    resolved = F.when(~is_named & (least == most), least)
    return known.withColumn("chain", F.coalesce(resolved, "receipt", "named"))


def _without_zeros(name: str) -> Column:
    """The name of a receipt without leading zeros in its number, after the last colon."""
    number = F.substring_index(name, ":", -1)
    # Hardly any number begins with a zero: the others skip the regular expression.
    bare = F.regexp_replace(name, ":0+([0-9]+)$", ":$1")
    return F.when(number.startswith("0"), bare).otherwise(F.col(name))


def receipts_by_reference(master: DataFrame) -> DataFrame:
    """The receipts that voids name by a reference or by the receipt's number alone.

    Only first copies name, and are named.

    In:  master records of one family: store_id, event_id, event_date, offset, value.
    Out: store_id, named (`reference:<store>:<name>`), receipt (event_id of the receipt): one row
         for each name that exactly one receipt of the 31 days before has.
    """
    target = F.regexp_replace("event_id", _PREFIX, "")
    voids = _first_copies(master.where(F.col("event_id").like(_TO_REFERENCE))).select(
        "store_id", target.alias("named"), F.col("event_date").alias("voided_on")
    )
    wanted = voids.where(F.col("named").startswith(f"{REFERENCE}:")).groupBy("store_id", "named")
    first_void, last_void = F.min("voided_on"), F.max("voided_on")
    days = wanted.agg(first_void.alias("first_void"), last_void.alias("last_void"))
    receipts = master.where(~F.col("event_id").like(f"{REVERSAL}%"))
    fields = (F.get_json_object("value", f"$.{name}") for name in ("reference", "transaction_id"))
    names = F.array_distinct(F.array_compact(F.array(*fields)))
    identity = ("store_id", "event_id", "offset")
    called = receipts.select(
        *identity, "event_date", target.alias("receipt"), F.explode(names).alias("name")
    ).withColumn("named", _reference_id("store_id", "name"))
    # There are few voids or none: the joins must not shuffle the receipts.
    found = called.join(F.broadcast(days), on=["store_id", "named"])
    copied = receipts.join(
        F.broadcast(found.select("store_id", "event_id").distinct()),
        on=["store_id", "event_id"],
        how="left_semi",
    )
    firsts = F.broadcast(_first_copies(copied).select(*identity))
    span = F.date_sub("first_void", DAYS_BEFORE), F.date_add("last_void", DAYS_AFTER)
    is_near = F.col("event_date").between(*span)
    recent = found.join(firsts, on=[*identity]).where(is_near)
    # A name that two receipts share identifies neither.
    by_name = recent.groupBy("store_id", "named").agg(
        F.min("receipt").alias("receipt"), F.count_distinct("receipt").alias("receipts")
    )
    return by_name.where("receipts = 1").drop("receipts")


def _first_copies(records: DataFrame) -> DataFrame:
    copies = Window.partitionBy("store_id", "event_id").orderBy("offset")
    return records.withColumn("copy", F.row_number().over(copies)).where("copy = 1")


def _reference_id(store_id: str, name: str) -> Column:
    """The event_id() of a reference, as tally.events.identity writes it."""
    percents = (F.regexp_replace(part, "%", "%25") for part in (store_id, name))
    colons = (F.regexp_replace(part, ":", "%3A") for part in percents)
    return F.concat_ws(":", F.lit(REFERENCE), *colons)
