"""Cut an index into named parts that share no source.

Groups (what was cut from one source) are taken whole, in an order that is a function of the seed and the group's name,
until each class is as near to its fraction as whole groups allow. Nothing here opens a file, looks at frames, or
depends on the order of files: `names` (or the user) has said what belongs together, `dataset` will read the parts.
"""

from clipfeed.split._leaks import leak_rate, naive_leak_rate, verify_split
from clipfeed.split._parts import Groups, check_groups, kfold_index, split_index
from clipfeed.split._report import PartReport, SplitReport, describe_split

__all__ = [
    "Groups",
    "PartReport",
    "SplitReport",
    "check_groups",
    "describe_split",
    "kfold_index",
    "leak_rate",
    "naive_leak_rate",
    "split_index",
    "verify_split",
]
