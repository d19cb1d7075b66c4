"""Simulations: the alerts that a rule would have sent."""
