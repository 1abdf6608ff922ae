"""The definition of a layout: its TOML file, read, checked and kept as a value, with the templates of its paths and texts."""
