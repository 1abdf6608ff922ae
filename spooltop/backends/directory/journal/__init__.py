"""The journals and the audit log: an intent line before each change, a result line after it."""
