"""Side by side with other runtimes."""
