"""The model's own greedy tokens, by transformers in float32. Run by the engine's Python:

python reference.py MODEL < [{"text": ..., "tokens": N}, ...] > [{"prompt": [...], "greedy": [...]}, ...]
"""

import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main() -> None:
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
    answers = []
    for request in json.load(sys.stdin):
        prompt = tokenizer.encode(request["text"], add_special_tokens=False)
        ids = torch.tensor([prompt])
        options = {"do_sample": False, "max_new_tokens": request["tokens"], "pad_token_id": model.config.eos_token_id}
        with torch.no_grad():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), **options)[0]
        answers.append({"prompt": prompt, "greedy": out[len(prompt) :].tolist()})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
