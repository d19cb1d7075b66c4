"""Commands for records that need a decision."""
