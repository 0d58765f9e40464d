"""An epoch as numbered batches of NumPy arrays.

`_videos` composes the steps of a clip's journey, `_limits` says what a dataset may use and checks what can be checked
before any file is read. It stands above all steps and below every framework.
"""

from clipfeed.dataset._limits import Limits, checked_batch_size, errors_for
from clipfeed.dataset._videos import VideoDataset

__all__ = ["Limits", "VideoDataset", "checked_batch_size", "errors_for"]
