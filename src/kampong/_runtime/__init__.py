"""What the machine gives: threads, compiled loops, arrays, hashing, and scikit-learn's callbacks."""
