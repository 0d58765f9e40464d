"""The whole job on a folder of videos: train a model by name, judge it, use it on new videos.

    done = cf.learn.train("HMDB51", "runs/first", options=cf.learn.TrainOptions(model="lrcn", epochs=30))
    cf.learn.resume("runs/first")                            after an interruption
    cf.learn.evaluate("runs/first").metrics.top1
    cf.learn.predict(["jump.avi"], "runs/first")

Beside `deliver` the only part of the package that knows Keras, and importing it does not import Keras. Whoever has a
model of their own needs none of it: `cf.video_dataset_from_directory` and `model.fit`.
"""

from clipfeed.learn.config import RunConfig, TrainOptions
from clipfeed.learn.evaluation import Evaluation, evaluate, write_evaluation
from clipfeed.learn.metrics import Metrics, measure
from clipfeed.learn.models import MODELS, build_model
from clipfeed.learn.prediction import Prediction, Predictions, predict
from clipfeed.learn.runs import EpochRow, RunFolder, RunState, open_run
from clipfeed.learn.training import Listener, TrainedRun, resume, train

__all__ = [
    "MODELS",
    "EpochRow",
    "Evaluation",
    "Listener",
    "Metrics",
    "Prediction",
    "Predictions",
    "RunConfig",
    "RunFolder",
    "RunState",
    "TrainOptions",
    "TrainedRun",
    "build_model",
    "evaluate",
    "measure",
    "open_run",
    "predict",
    "resume",
    "train",
    "write_evaluation",
]
