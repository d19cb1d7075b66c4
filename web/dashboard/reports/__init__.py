"""The numbers and charts of reports."""
