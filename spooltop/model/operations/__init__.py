"""Plans, their results and progress, the records of them, and the long lists that they hold. Pure."""
