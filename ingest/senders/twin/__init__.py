"""The store twin: invented stores that send as real ones do."""
