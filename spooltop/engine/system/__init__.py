"""Access to the operating system: file operations, system calls, the host."""
