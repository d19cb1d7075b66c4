"""Decisions about deliveries, as pure functions of records without a clock."""
