"""What a run writes besides its model: predictions, dead letters, progress; checked before it begins."""
