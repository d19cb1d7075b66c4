"""The routes for numbers: stores, metrics, reports, and what they stand on."""
