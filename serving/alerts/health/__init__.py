"""Whether rules can be judged in their stores: computed on request and not stored."""
