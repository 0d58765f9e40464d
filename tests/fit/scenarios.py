"""Real `fit`, `evaluate` and `predict` on one backend, in a process of its own.

    KERAS_BACKEND=jax python scenarios.py keras --without tensorflow

Prints one JSON object: for each scenario what a model was given, read off the pixels inside the model's own metric.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import threading
import traceback
import warnings

import numpy as np
from numbered import NUM_CODES, NumberedDataset

import clipfeed as cf
from clipfeed.errors import DecodeError

VALIDATION = 25  # number of the first validation batch


def our_threads():
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("clipfeed"))


def make_model(keras):
    """A model that gives the mean pixel of a clip, three numbers, and a trainable one; its metric notes the former."""
    ops = keras.ops

    class Given(keras.metrics.Metric):
        """Rows of each batch that came, by what their pixels say, over the life of the model."""

        def __init__(self):
            super().__init__(name="given")
            self.rows = self.add_variable((NUM_CODES,), "zeros", name="rows")
            self.wrong = self.add_variable((), "zeros", name="wrong")

        def update_state(self, y_true, y_pred, sample_weight=None):
            pixels = ops.cast(ops.round(y_pred[:, :3] * 255), "int32")
            codes = pixels[:, 0] + 50 * pixels[:, 1]
            kept = ops.ones_like(y_pred[:, 0]) if sample_weight is None else ops.cast(sample_weight != 0, "float32")
            self.rows.assign(self.rows + ops.sum(ops.one_hot(codes, NUM_CODES) * kept[:, None], axis=0))
            differs = ops.cast(ops.cast(ops.reshape(y_true, (-1,)), "int32") != codes, "float32")
            self.wrong.assign(self.wrong + ops.sum(differs * kept))

        def result(self):
            return self.wrong + 0

        def reset_state(self):
            pass

    clips = keras.Input((2, 4, 4, 3))
    pixels = keras.layers.GlobalAveragePooling3D()(clips)
    model = keras.Model(clips, keras.layers.Concatenate()([pixels, keras.layers.Dense(1)(pixels)]))
    model.given = Given()
    model.compile(
        optimizer=keras.optimizers.SGD(1e-3),
        loss=lambda y_true, y_pred: (y_pred[:, 3] - 1) ** 2,
        weighted_metrics=[model.given],
    )
    return model


def read(variable):
    """A variable's number or numbers, summed over replicas."""
    value = variable.value
    return np.array(value.read_value() if hasattr(value, "read_value") else variable)


def given(model, before=None):
    """Rows of each (epoch, number) that the model was given, as {"epoch.number": rows}."""
    rows = read(model.given.rows) - (0 if before is None else before)
    return {f"{code // 50}.{code % 50}": int(rows[code]) for code in np.flatnonzero(rows)}


def watcher(keras):
    class Watch(keras.callbacks.Callback):
        """What came in each epoch of Keras, and which threads are left when it ends."""

        def __init__(self):
            super().__init__()
            self.epochs = []
            self.threads = []

        def on_epoch_begin(self, epoch, logs=None):
            self.before = read(self.model.given.rows)

        def on_epoch_end(self, epoch, logs=None):
            self.epochs.append(given(self.model, self.before))
            self.threads += our_threads()

    return Watch()


class Scenarios:
    def __init__(self, format):
        import keras

        self.keras = keras
        self.adapt = {"keras": cf.to_keras, "tf": cf.to_tensorflow}[format]

    def train(self, **options):
        return self.adapt(NumberedDataset(**options))

    def validation(self, **options):
        return self.adapt(NumberedDataset(training=False, offset=VALIDATION, num_batches=3, **options))

    def fit(self, ds, callbacks=(), model=None, **options):
        model = model or make_model(self.keras)
        watch = watcher(self.keras)
        history = model.fit(ds, verbose=0, callbacks=[*callbacks, watch], **options).history
        return {
            "epochs": watch.epochs,
            "threads": watch.threads + our_threads(),
            "wrong": float(read(model.given.wrong)),
        } | {"steps": len(history["loss"])}

    def plain_fit_with_validation(self):
        return self.fit(self.train(), epochs=3, validation_data=self.validation())

    def plain_fit_without_permuted_numbers(self):
        return self.fit(self.train(), epochs=2, shuffle=False)

    def fit_from_a_later_epoch(self):
        return self.fit(self.train(), [cf.EpochSync()], initial_epoch=4, epochs=6, validation_data=self.validation())

    def fit_with_sync_of_one_dataset(self):
        train, other = self.train(), self.train()
        facts = self.fit(train, [cf.EpochSync(train)], epochs=2)
        return facts | {"upcoming": other.epochs.upcoming}

    def epochs_shorter_than_the_data(self):
        return self.fit(self.train(), [cf.EpochSync()], steps_per_epoch=3, epochs=4)

    def epochs_shorter_than_the_data_without_sync(self):
        return self.fit(self.train(), steps_per_epoch=3, epochs=4)

    def epochs_as_long_as_the_data(self):
        return self.fit(
            self.train(), steps_per_epoch=5, epochs=3, validation_data=self.validation(), validation_steps=2
        )

    def class_weight(self):
        train = self.train(label_of=lambda epoch, number: number % 2)
        facts = self.fit(train, epochs=2, class_weight={0: 1.0, 1: 2.0})
        silenced = make_model(self.keras).fit(train, verbose=0, class_weight={0: 0.0, 1: 0.0})
        return facts | {"silenced_loss": silenced.history["loss"]}

    def padded(self):
        return self.fit(self.train(pad_last=True), epochs=2, validation_data=self.validation(pad_last=True))

    def two_fits_of_one_dataset(self):
        train, model = self.train(), make_model(self.keras)
        first = self.fit(train, model=model, epochs=2)
        second = self.fit(train, model=model, epochs=2)
        return first | {"epochs": first["epochs"] + second["epochs"]}

    def evaluation_of_the_training_data_between_batches(self):
        keras, train, counts = self.keras, self.train(), []

        class Evaluate(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                if batch == 1:
                    other = make_model(keras)
                    other.evaluate(train, verbose=0)
                    counts.append(given(other))

        return self.fit(train, [Evaluate()], epochs=2) | {"evaluated": counts}

    def under_a_strategy(self):
        if self.keras.backend.backend() != "tensorflow":
            return None
        import tensorflow as tf

        with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
            models = [make_model(self.keras) for _ in range(3)]
        train = self.train(num_batches=6, batch_size=4)
        plain = self.fit(train, model=models[0], epochs=3, validation_data=self.validation(batch_size=4))
        sync = self.fit(train, [cf.EpochSync()], model=models[1], epochs=3, initial_epoch=1)
        steps = self.fit(train, [cf.EpochSync()], model=models[2], epochs=4, steps_per_epoch=3)
        return {"plain": plain, "sync": sync, "steps": steps}

    def evaluate_and_predict(self):
        ds, model = self.validation(), make_model(self.keras)
        model.evaluate(ds, verbose=0)
        before = given(model)
        model.evaluate(ds, verbose=0)
        predicted = np.round(model.predict(ds, verbose=0)[:, :3] * 255).astype(int)
        return {
            "first": before,
            "both": given(model),
            "numbers": predicted[:, 0].tolist(),
            "rows": predicted[:, 2].tolist(),
            "labels": [int(label) for label in ds.labels],
            "wrong": float(read(model.given.wrong)),
            "threads": our_threads(),
        }

    def fit_on_evaluation_data(self):
        ds = self.validation()
        return self.fit(ds, epochs=2)

    def channels_follow_the_configuration(self):
        self.keras.config.set_image_data_format("channels_first")
        ds = self.train()
        self.keras.config.set_image_data_format("channels_last")
        first = next(iter(ds))[0]
        return {"first": list(first.shape), "last": list(next(iter(self.train()))[0].shape)}

    def gpus_of_another_framework(self):
        if sys.modules.get("tensorflow") is None:
            return {"hidden": []}
        config, hidden = sys.modules["tensorflow"].config, []
        original, config.set_visible_devices = config.set_visible_devices, lambda *args: hidden.append(list(args))
        self.train()
        config.set_visible_devices = original
        return {"hidden": hidden}

    def a_broken_video(self):
        error = DecodeError("no frame at 12.480 s", path="run/v042.mp4")
        ds = self.train(broken=(1, 2), error=error)
        try:
            self.fit(ds, [cf.EpochSync()], epochs=3)
        except Exception as caught:
            facts = {"message": str(caught), "is_original": caught is error, "threads": our_threads()}
            return facts | {"kept": ds.clipfeed.ledger.last_error is error}

    def a_stop_between_batches(self):
        class Stop(self.keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                self.model.stop_training = True

        train, model = self.train(num_batches=40), make_model(self.keras)
        model.fit(train, verbose=0, epochs=5, callbacks=[Stop()])
        between = our_threads()
        facts = self.fit(train, [cf.EpochSync(train)], model=model, epochs=1)
        model.fit(train, verbose=0, epochs=5, callbacks=[Stop()])
        del train, model
        gc.collect()
        return facts | {"threads_between": between, "threads_after": our_threads()}


def divide_cpu():
    """Let TensorFlow see two CPUs, for a strategy to mirror a model on."""
    import tensorflow as tf

    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("format")
    parser.add_argument("--without")
    parser.add_argument("--only", nargs="*")
    args = parser.parse_args()
    if args.without:
        sys.modules[args.without] = None  # as if it were not installed, for import and find_spec
    if os.environ["KERAS_BACKEND"] == "tensorflow":
        divide_cpu()
    scenarios, facts = Scenarios(args.format), {}
    warnings.simplefilter("ignore")
    names = [name for name in vars(Scenarios) if name not in ("train", "validation", "fit") and name[0] != "_"]
    for name in args.only or names:
        try:
            facts[name] = getattr(scenarios, name)()
        except Exception:
            facts[name] = {"error": traceback.format_exc()}
    facts["modules"] = [name for name in ("tensorflow", "jax", "torch") if sys.modules.get(name) is not None]
    facts["backend"] = scenarios.keras.backend.backend()
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
