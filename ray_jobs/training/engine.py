"""The DeepSpeed engine, and the full state of its parameters, whatever the ZeRO stage and the world size."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

Precision = Literal["float32", "bf16"]
BUCKET = 50_000_000  # elements in one collective: bounds the buffers beside the weights
MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class AdamW:
    """AdamW over all trained parameters, biases and layer norms too, as SapBERT does.

    Attributes:
        learning_rate: reached after the warm-up, then constant.
        weight_decay: decoupled.
        clip: largest norm of the gradient; 0 does not clip.
        warmup_steps: the rate rises linearly over these steps.
    """

    learning_rate: float
    weight_decay: float = 0.01
    clip: float = 0.0
    warmup_steps: int = 0

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0: a function of the step alone."""
        return self.learning_rate * min(1.0, (step + 1) / (self.warmup_steps + 1))


def build_engine(module: nn.Module, optimizer: AdamW, *, stage: int, precision: Precision) -> Any:
    """Wrap a float32 module; the process group must be there.

    Weights, gradients and optimizer states stay float32. `bf16` runs the forward under autocast, as the original ran
    in mixed precision, so nothing else depends on the precision.

    Args:
        module: on the CPU.
        optimizer: its settings.
        stage: of ZeRO: 1, 2 or 3.
        precision: of the forward pass.
    """
    deepspeed = import_deepspeed()
    if precision == "bf16":
        device_type = "cuda" if torch.cuda.is_available() else "cpu"
        module.forward = torch.autocast(device_type, dtype=torch.bfloat16)(module.forward)
    config = {
        "train_micro_batch_size_per_gpu": 1,  # bookkeeping only: batches are ours
        "gradient_accumulation_steps": 1,
        "gradient_clipping": optimizer.clip,  # DeepSpeed clips at 1.0 unless told otherwise
        "zero_optimization": {"stage": stage, "reduce_bucket_size": BUCKET, "allgather_bucket_size": BUCKET},
        "optimizer": {
            "type": "AdamW",
            # torch's own AdamW: DeepSpeed's is compiled on first use
            "params": {
                "lr": optimizer.learning_rate,
                "weight_decay": optimizer.weight_decay,
                "torch_adam": True,
                "fused": True,
            },
        },
    }
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    engine, *_ = deepspeed.initialize(model=module, model_parameters=trained, config=config)
    return engine


def import_deepspeed() -> Any:
    """Import DeepSpeed for the device at hand, without the C++ extension that it would build for CPUs."""
    os.environ.setdefault("DS_ACCELERATOR", "cuda" if torch.cuda.is_available() else "cpu")
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    import deepspeed
    import deepspeed.ops
    from deepspeed.utils import logger

    logger.setLevel(logging.WARNING)
    if os.environ["DS_ACCELERATOR"] == "cpu":
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return deepspeed


def set_learning_rate(engine: Any, rate: float) -> None:
    """Set the rate of the next step."""
    for group in engine.optimizer.param_groups:
        group["lr"] = rate


def full_gradients(engine: Any) -> dict[str, Tensor]:
    """Return the gradient of every trained parameter, averaged over ranks. All ranks call it before the step."""
    from deepspeed.utils import safe_get_full_grad

    return {name: safe_get_full_grad(parameter) for name, parameter in _trained(engine)}


def full_states(engine: Any) -> Iterator[tuple[int, str, dict[str, Tensor]]]:
    """Yield index, name and full state (`weight`, `exp_avg`, `exp_avg_sq`; float32) of every trained parameter.

    At least one step must have been made. All ranks iterate, for each state is gathered from all.
    """
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

    for index, (name, parameter) in enumerate(_trained(engine)):
        state = {"weight": safe_get_full_fp32_param(parameter)}
        state |= {kind: safe_get_full_optimizer_state(parameter, kind) for kind in MOMENTS}
        yield index, name, state


def restore_moments(engine: Any, step: int, moment: Callable[[str, str], Tensor]) -> None:
    """Set the optimizer's states in a new engine whose weights are those of the checkpoint. All ranks call it.

    Args:
        engine: new, without a step.
        step: how many steps the states are old.
        moment: (`exp_avg` or `exp_avg_sq`, parameter's name) → full state.
    """
    from deepspeed.utils import safe_set_full_optimizer_state

    zero = engine.optimizer
    by_stage = {
        1: "single_partition_of_fp32_groups",
        2: "single_partition_of_fp32_groups",
        3: "fp32_partitioned_groups_flat",
    }
    for flat in getattr(zero, by_stage[engine.zero_optimization_stage()]):
        # torch's AdamW makes this at its first step; the moments are views that DeepSpeed shares out to parameters.
        zero.optimizer.state[flat] = {"step": torch.tensor(float(step), device=flat.device)} | {
            kind: torch.zeros_like(flat) for kind in MOMENTS
        }
    if engine.zero_optimization_stage() < 3:
        zero._lazy_init_hp_params_optimizer_state()
    for name, parameter in _trained(engine):
        for kind in MOMENTS:
            safe_set_full_optimizer_state(parameter, moment(kind, name).to(engine.device), kind)


def _trained(engine: Any) -> Iterator[tuple[str, nn.Parameter]]:
    for name, parameter in engine.module.named_parameters():
        if parameter.requires_grad:
            yield name, parameter
