"""What runs and explains code that is not ours: the only part of `course` that a jail sees."""
