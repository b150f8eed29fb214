"""Models served over HTTP: predictions at once, rows learnt durably, the Open Inference Protocol; `kampong serve`."""
