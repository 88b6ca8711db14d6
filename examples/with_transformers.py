"""A search over learning rates with the Transformers Trainer, which stops the runs that cannot win.

pip install 'epochcast[transformers,examples]' && python examples/with_transformers.py
"""

from __future__ import annotations

import tempfile

import numpy as np
import torch
from sklearn.datasets import load_digits
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

from epochcast import Stopper
from epochcast.integrations.transformers import ForecastStopping

EPOCHS = 10


def rows_as_tokens() -> list[dict[str, torch.Tensor]]:
    """Pictures of digits as text: a picture is a row of 64 tokens, one for each pixel and its brightness."""
    images, labels = load_digits(return_X_y=True)
    tokens = torch.tensor(images, dtype=torch.long)
    return [{"input_ids": row, "labels": label} for row, label in zip(tokens, torch.tensor(labels), strict=True)]


def small_bert() -> BertForSequenceClassification:
    config = BertConfig(
        vocab_size=17,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        num_labels=10,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config)


def accuracy(prediction: object) -> dict[str, float]:
    return {"accuracy": float(np.mean(prediction.predictions.argmax(-1) == prediction.label_ids))}


def train(rate: float, stopping: ForecastStopping, folder: str) -> float:
    """How many epochs the training took."""
    set_seed(0)
    arguments = TrainingArguments(
        folder,
        num_train_epochs=EPOCHS,
        learning_rate=rate,
        lr_scheduler_type="constant",
        per_device_train_batch_size=64,
        per_device_eval_batch_size=300,
        eval_strategy="epoch",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    digits = rows_as_tokens()
    trainer = Trainer(
        small_bert(),
        arguments,
        train_dataset=digits[:1000],
        eval_dataset=digits[1000:1300],
        compute_metrics=accuracy,
        callbacks=[stopping],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return trainer.state.epoch


def main() -> None:
    stopper = Stopper(horizon=EPOCHS, metric="accuracy")  # carries the best value from run to run
    with tempfile.TemporaryDirectory() as folder:
        for rate in (0.01, 0.0003, 0.00001):
            stopping = ForecastStopping("accuracy", stopper=stopper)
            epochs = train(rate, stopping, folder)
            print(f"learning rate {rate:g}: {epochs:g} of {EPOCHS} epochs; {stopping.decision}")
    print(f"best accuracy: {stopper.best:.3f}")


if __name__ == "__main__":
    main()
