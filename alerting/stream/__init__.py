"""The event stream of alerts for subscribers."""
