"""What all computations use: threads, compiled loops, arrays, hashing, and scikit-learn's callbacks."""
