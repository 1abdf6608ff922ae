"""The main screen: its state, its commands, its navigation, the updates that reach it, and its layout."""
