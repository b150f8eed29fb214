"""The tables and figures of the papers, one script each: the paper's figure, ours, and the ratio."""
