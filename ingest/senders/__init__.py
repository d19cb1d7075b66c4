"""Programs that send events: dropped files, replays, and the store twin."""
