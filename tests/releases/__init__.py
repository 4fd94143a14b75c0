"""Files that each release wrote, in a folder per version."""
