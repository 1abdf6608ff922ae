"""Change events: inotify, the thread that reads it, and the flow and the whereabouts that follow from them."""
