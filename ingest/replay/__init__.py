"""Sources of messages: the replay of real receipts."""
