"""clipfeed: a folder of videos in, batches for `model.fit` out."""
