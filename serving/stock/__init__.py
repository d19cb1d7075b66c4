"""Stock beyond the views: its movements, and what they are told to."""
