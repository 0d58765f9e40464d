"""Thirty epochs of `fit` on one backend, in a process of its own, which then leaves in the midst of an epoch.

    KERAS_BACKEND=torch python memory.py keras

Prints the anonymous memory after each epoch, in MB, and exits with status 3 while batches are being made ahead.
"""

from __future__ import annotations

import ctypes
import gc
import json
import re
import sys
import warnings
from pathlib import Path

import keras
from numbered import NumberedDataset

import clipfeed as cf
from clipfeed.records import ClipSpec

EPOCHS = 30


def anonymous_megabytes():
    """RssAnon once freed memory has gone back to the system."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) / 1000


class Measure(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.megabytes = []

    def on_epoch_end(self, epoch, logs=None):
        self.megabytes.append(round(anonymous_megabytes(), 2))


class Leave(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            sys.exit(3)


def main():
    warnings.simplefilter("ignore")
    adapt = {"keras": cf.to_keras, "tf": cf.to_tensorflow}[sys.argv[1]]
    spec = ClipSpec(num_frames=16, image_size=(64, 64))
    # 1.6 MB a batch in uint8, 6.3 MB in float32: two lost batches of 150 would show.
    train = adapt(NumberedDataset(num_batches=5, batch_size=8, spec=spec, memory_budget=10**8))
    validation = adapt(NumberedDataset(num_batches=2, batch_size=8, spec=spec, memory_budget=10**8, training=False))
    clips = keras.Input(spec.shape)
    model = keras.Model(clips, keras.layers.Dense(1)(keras.layers.GlobalAveragePooling3D()(clips)))
    model.compile(optimizer="sgd", loss="mse")
    measure = Measure()
    model.fit(train, validation_data=validation, epochs=EPOCHS, verbose=0, callbacks=[measure])
    print(json.dumps(measure.megabytes), flush=True)
    many = adapt(NumberedDataset(num_batches=40, batch_size=8, spec=spec, memory_budget=10**8, rounds=60_000))
    model.fit(many, epochs=5, verbose=0, callbacks=[Leave()])


if __name__ == "__main__":
    main()
