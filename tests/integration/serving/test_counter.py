"""The negative control's table is read in place of the speed view when the settings say so."""

from datetime import date

from serving.api.app import create_app
from serving.merge.cassandra_views import CassandraViews
from tally.connect import cassandra_session
from tally.settings import Settings
from tests.api_suite import asking, window

_TABLE = """CREATE TABLE sales_15min_counter (store_id text, day date, window_start timestamp, currency text, dim text, dim_value text,
  "events" counter, "receipts" counter, "gross_minor" counter, "returns_minor" counter, "voids_minor" counter, "units_milli" counter,
  PRIMARY KEY ((store_id, day), window_start, currency, dim, dim_value))"""
_ADD = """UPDATE sales_15min_counter SET events = events + 1, receipts = receipts + 1, gross_minor = gross_minor + 70,
  returns_minor = returns_minor + 0, voids_minor = voids_minor + 0, units_milli = units_milli + 1000
  WHERE store_id = '1' AND day = '2017-09-19' AND window_start = '2017-09-19T10:00:00Z' AND currency = 'USD'
  AND dim = '*' AND dim_value = ''"""


def test_counter_rows_are_served_and_a_repeated_write_shows(own_settings: Settings) -> None:
    with cassandra_session(own_settings) as session:
        session.execute(_TABLE)
        session.execute("INSERT INTO store_activity (family, store_id, first_day, last_day) VALUES (%s, %s, %s, %s)",
                        ("sales", "1", date(2017, 9, 19), date(2017, 9, 19)))  # fmt: skip
        session.execute(_ADD)
        session.execute(_ADD)
    views = CassandraViews(own_settings.model_copy(update={"sink_register": "counter"}))
    with asking(create_app(own_settings, views)) as ask:
        row = window(ask, "revenue", "2017-09-19T10:00", store="1")
    views.close()
    assert (row["value"], row["events"], row["source"]) == (140, 2, "speed")
