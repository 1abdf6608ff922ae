"""Other programs themselves, beside spooltop: they make queues, work on them while spooltop operates, and count afterwards."""
