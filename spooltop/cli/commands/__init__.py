"""The commands, a module for each or for a few that are alike. ``parser`` names their functions, which are loaded when called."""
