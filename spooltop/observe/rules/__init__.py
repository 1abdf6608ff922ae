"""The rules for problems: they read one look and the looks before it, and say what cannot be judged or seen."""
