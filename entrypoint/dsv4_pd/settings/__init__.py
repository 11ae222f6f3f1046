"""The operator's settings: types, schema, reading, redaction."""
