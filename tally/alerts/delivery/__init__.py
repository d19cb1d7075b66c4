"""What becomes of an alert on its way to a channel: functions of records, without a clock."""
