"""What several tiers of tests share: loads with oracles of their own, senders, scanners."""
