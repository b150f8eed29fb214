"""The course of a stream in bounded memory: curves, outcomes, alarms, choices."""
