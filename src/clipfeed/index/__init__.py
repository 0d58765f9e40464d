"""Find and probe a folder's videos, and keep what was learnt in a table.

    directory -find-> FoundVideo -probe-> VideoInfo -> one row a video in the user's cache folder -> VideoIndex

The first call opens every file, in threads, and writes as it goes: what is done stays done when it is interrupted.
Later calls list the folder and open only what is new or changed. A file that cannot be used is a row too, with the
reason.
Nothing is ever written beside the data, and no pixel is looked at here beyond what counting frames asks for.
"""

from clipfeed.index._build import build_index, remember_failure
from clipfeed.index._labels import check_labels

__all__ = ["build_index", "check_labels", "remember_failure"]
