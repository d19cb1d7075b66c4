"""`python -m alerting.evaluate`: turns views, rules and ticks into alerts."""
