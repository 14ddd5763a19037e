"""An application whose columns are encrypted as schema.toml declares."""
