"""The speed layer: streaming queries that keep the view rows of open windows up to date."""
