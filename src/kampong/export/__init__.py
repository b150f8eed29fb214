"""Fitted models as pipelines of scikit-learn's own classes: what `to_sklearn` returns."""
