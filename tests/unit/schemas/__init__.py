"""Python types, JSON Schema files, CQL and the catalogue say the same."""
