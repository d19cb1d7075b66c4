"""What all pages share: frame, charts, texts and data source."""
