"""The verdict, its reasons and what it rests on: the first and the last sections of a report."""
