"""From columns to rows for the model: what the columns are, and what a stream remembers of them."""
