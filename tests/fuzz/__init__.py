"""Attackers of the library, kept: broken matrices, odd arrays, lying model files, damaged sources."""
