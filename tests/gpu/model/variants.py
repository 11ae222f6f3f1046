"""Other formats of the tiny checkpoint: its experts in NVFP4, and a block that drafts (DSpark's stages, an MTP layer).

Each is a folder beside the first, whose unchanged files are hard links. Names are the published checkpoints', as the
engine's loaders map them: models/deepseek_v4.py, deepseek_v4_nextn.py, deepseek_v4_dspark.py. A draft's layers are the
model's last ones under other names, what is new in it is random: it proposes little that is accepted, and what is
served must not depend on it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from gpu.model.checkpoint import DENSE
from gpu.model.formats import nvfp4_of_mxfp4, to_fp8

SEED = 20_261_130
INDEX = "model.safetensors.index.json"
# Of the activations of every expert, in NVFP4's second scale: values up to 42 are kept (448 x 6 / 64).
INPUT_SCALE = 2.0**-6
NVFP4 = {"quant_algo": "MIXED_PRECISION", "moe_quant_algo": "NVFP4", "group_size": 16, "ignore": ["mtp.*"]}
BLOCK, RANK, STAGES = 5, 256, 2  # DSpark's, as published but for the stages, of which Flash has three
Tensors = dict[str, torch.Tensor]


def nvfp4(base: Path, out: Path) -> None:
    """The model's routed experts in NVFP4, exactly what they were; a draft's stay MXFP4."""
    config = read_config(base)
    config["quantization_config"] |= NVFP4
    write(base, out, config, ((file, converted(base / file)) for file in expert_files(config)))


def converted(file: Path) -> Tensors:
    """A layer's experts: weight, scale of each group, of the tensor, and of what it is given."""
    found: Tensors = {}
    with safe_open(str(file), "pt") as source:
        for name in (key.removesuffix(".weight") for key in source.keys() if key.endswith(".weight")):  # noqa: SIM118
            codes, scale, whole = nvfp4_of_mxfp4(
                source.get_tensor(f"{name}.weight"), source.get_tensor(f"{name}.scale")
            )
            found |= {f"{name}.weight": codes, f"{name}.weight_scale": scale, f"{name}.weight_scale_2": whole}
            found[f"{name}.input_scale"] = torch.tensor(INPUT_SCALE)
    return found


def dspark(base: Path, out: Path) -> None:
    """With DSpark's block: a stage for each of the last layers, the Markov head and the head for confidence."""
    config = read_config(base)
    layers = config["num_hidden_layers"]
    targets = list(range(layers - STAGES, layers))
    config |= {
        "compress_ratios": [*config["compress_ratios"][:layers], *[0] * STAGES],
        "dspark_block_size": BLOCK,
        "dspark_markov_rank": RANK,
        "dspark_noise_token_id": config["vocab_size"] - 1,
        "dspark_target_layer_ids": targets,
        "num_nextn_predict_layers": 1,
    }
    numbers = range(STAGES)
    write(base, out, config, ((f"model-mtp-{number}.safetensors", stage(base, config, number)) for number in numbers))


def stage(base: Path, config: Mapping[str, Any], number: int) -> Tensors:
    """One stage of DSpark's; the first reads the target's layers, the last one has the heads."""
    hidden, draw = config["hidden_size"], generator(number)
    found = layer(base, config["dspark_target_layer_ids"][number], f"mtp.{number}")
    if number == 0:
        found |= projection("mtp.0.main_proj", hidden, hidden * STAGES, draw)
        found["mtp.0.main_norm.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
    if number == STAGES - 1:
        found |= heads(base, f"mtp.{number}")
        for matrix in ("markov_w1", "markov_w2"):
            values = torch.randn(config["vocab_size"], RANK, generator=draw) / RANK
            found[f"mtp.{number}.markov_head.{matrix}.weight"] = values.to(torch.bfloat16)
        found[f"mtp.{number}.confidence_head.proj.weight"] = torch.randn(1, hidden + RANK, generator=draw) / hidden
    return found


def eagle(base: Path, out: Path) -> None:
    """With an MTP layer: the last layer again, behind projections of the embedding and of the hidden state."""
    config = read_config(base) | {"num_nextn_predict_layers": 1}
    layers, hidden, draw = config["num_hidden_layers"], config["hidden_size"], generator(STAGES)
    found = layer(base, layers - 1, "mtp.0") | heads(base, "mtp.0")
    for name in ("e_proj", "h_proj"):
        found |= projection(f"mtp.0.{name}", hidden, hidden, draw)
    for name in ("enorm", "hnorm"):
        found[f"mtp.0.{name}.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
    write(base, out, config, [("model-mtp-0.safetensors", found)])


def layer(base: Path, number: int, name: str) -> Tensors:
    """A layer of the model under another name; a draft's attention has a window alone."""
    found: Tensors = {}
    for file in (DENSE, f"model-experts-{number}.safetensors"):
        with safe_open(str(base / file), "pt") as source:
            for key in source.keys():  # noqa: SIM118
                rest = key.removeprefix(f"layers.{number}.")
                if rest != key and not rest.startswith(("attn.compressor.", "attn.indexer.")):
                    found[f"{name}.{rest}"] = source.get_tensor(key)
    return found


def heads(base: Path, name: str) -> Tensors:
    """The model's last norm and the mixing of its streams, under another name."""
    with safe_open(str(base / DENSE), "pt") as source:
        return {
            f"{name}.{key}": source.get_tensor(key)
            for key in ("norm.weight", "hc_head_fn", "hc_head_base", "hc_head_scale")
        }


def projection(name: str, rows: int, columns: int, draw: torch.Generator) -> Tensors:
    """A random matrix in block FP8 that keeps the size of what it is given."""
    weight, scale = to_fp8(torch.randn(rows, columns, generator=draw) / columns**0.5)
    return {f"{name}.weight": weight, f"{name}.scale": scale}


def generator(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(SEED + number)


def read_config(base: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((base / "config.json").read_text())
    return config


def expert_files(config: Mapping[str, Any]) -> Iterator[str]:
    for number in range(config["num_hidden_layers"]):
        yield f"model-experts-{number}.safetensors"


def write(base: Path, out: Path, config: Mapping[str, Any], files: Iterable[tuple[str, Tensors]]) -> None:
    """The folder: files of these tensors, all others of `base` linked, and an index and config.json of its own."""
    out.mkdir(parents=True, exist_ok=True)
    index = json.loads((base / INDEX).read_text())
    names, total = dict(index["weight_map"]), int(index["metadata"]["total_size"])
    made = {}
    for file, tensors in files:
        before = [name for name, place in names.items() if place == file]
        total += size(tensors.values()) - (size_of(base / file) if before else 0)
        names = {name: place for name, place in names.items() if place != file} | dict.fromkeys(tensors, file)
        (out / file).unlink(missing_ok=True)
        save_file({name: value.contiguous() for name, value in tensors.items()}, str(out / file))
        made[file] = len(tensors)
    for path in base.iterdir():
        if path.name not in made and path.name not in (INDEX, "config.json"):
            (out / path.name).unlink(missing_ok=True)
            os.link(path, out / path.name)
    (out / INDEX).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": names}))
    (out / "config.json").write_text(json.dumps(config, indent=1))


def size(tensors: Iterable[torch.Tensor]) -> int:
    """Their bytes, as the index counts them."""
    return sum(value.numel() * value.element_size() for value in tensors)


def size_of(file: Path) -> int:
    with safe_open(str(file), "pt") as source:
        return size(source.get_tensor(key) for key in source.keys())  # noqa: SIM118


def size_on_disk(folder: Path) -> int:
    """Of all tensors, as the index says."""
    return int(json.loads((folder / INDEX).read_text())["metadata"]["total_size"])
