"""Delivery of alerts to channels, as pure functions of records without a clock."""
