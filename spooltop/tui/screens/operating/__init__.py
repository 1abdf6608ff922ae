"""The screens of an operation: its plan or form, its result, the list of all operations, and one of them."""
