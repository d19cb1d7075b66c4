"""Alerts: rules, their evaluation, deliveries, simulations and queries."""
