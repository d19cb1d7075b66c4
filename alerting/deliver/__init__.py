"""`python -m alerting.deliver`: sends alerts to webhooks by channels and silences."""
