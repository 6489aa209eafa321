"""Makes a tiny random checkpoint of each family, and the tokens that `transformers` continues a prompt with.

    python crates/candle-backend/tests/make_fixtures.py        (torch, transformers 5)
"""

import json
import pathlib
import shutil

import torch
from transformers import AutoConfig, AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent / "fixtures"
PROMPT, NEW = 20, 24
COMMON = dict(
    vocab_size=300, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=256, bos_token_id=None, eos_token_id=None, pad_token_id=None,
)
MOE = dict(moe_intermediate_size=24, num_experts_per_tok=2)
DEEPSEEK = dict(
    num_key_value_heads=4, n_routed_experts=4, n_shared_experts=1, q_lora_rank=None, kv_lora_rank=16,
    qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, first_k_dense_replace=1, n_group=1, topk_group=1,
    topk_method="greedy", routed_scaling_factor=1.0, norm_topk_prob=False, **MOE,
)
# As in the published DeepSeek-V2, for 32 positions.
YARN = dict(
    rope_type="yarn", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=32, beta_fast=32,
    beta_slow=1, mscale=0.707, mscale_all_dim=0.707,
)
# Behind a dash stands what is not the family's default.
FAMILIES = {
    "gemma": dict(head_dim=16),
    "gemma2": dict(head_dim=16, query_pre_attn_scalar=16, sliding_window=128),
    "gemma3_text": dict(
        head_dim=16, query_pre_attn_scalar=16, sliding_window=128, num_hidden_layers=7,
        # as both published sizes; with more, candle 0.11 fails
        num_key_value_heads=1,
    ),
    # As in Gemma 2 27B, queries are not scaled by the size of a head.
    "gemma2-scalar": dict(head_dim=16, query_pre_attn_scalar=5, sliding_window=128),
    "gemma3_text-pattern": dict(
        head_dim=16, query_pre_attn_scalar=5, sliding_window=128, num_hidden_layers=5, num_key_value_heads=1,
        layer_types=["sliding_attention", "full_attention"] * 2 + ["sliding_attention"],
    ),
    "mixtral": dict(num_local_experts=4, num_experts_per_tok=2),
    "qwen2_moe": dict(num_experts=4, shared_expert_intermediate_size=40, decoder_sparse_step=1, **MOE),
    "qwen3_moe": dict(num_experts=4, head_dim=16, decoder_sparse_step=1, norm_topk_prob=True, **MOE),
    "phi": dict(num_key_value_heads=4, partial_rotary_factor=0.5),
    "glm4": dict(head_dim=16, partial_rotary_factor=0.5),
    "deepseek_v2": DEEPSEEK,
    "deepseek_v2-yarn": dict(DEEPSEEK, rope_parameters=YARN),
    "starcoder2": dict(use_bias=True, sliding_window=128),
    "olmo": dict(clip_qkv=1.0),
    "olmo2": dict(),
    "stablelm": dict(partial_rotary_factor=0.25, use_qkv_bias=True),
    "helium": dict(head_dim=8, bos_token_id=0, eos_token_id=1),
    "smollm3": dict(num_hidden_layers=4),
    "llama": dict(),
    "mistral": dict(head_dim=8, sliding_window=None),
    "qwen2": dict(),
    "qwen3": dict(head_dim=8),
    "phi3": dict(),
}


def make(name, settings):
    torch.manual_seed(sum(map(ord, name)))
    config = AutoConfig.for_model(name.split("-")[0], **{**COMMON, **settings})
    net = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    with torch.no_grad():
        for key, tensor in net.named_parameters():
            if tensor.dim() == 1:
                tensor.copy_((0 if key.endswith("bias") else tensor) + 0.2 * torch.randn_like(tensor))
            else:
                # Larger than a trained model's, so that attention is far from uniform.
                tensor.copy_(0.3 * torch.randn_like(tensor))
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    net.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    net = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    ids = torch.randint(0, 256, (1, PROMPT), generator=torch.Generator().manual_seed(7))
    prompt, tokens, gaps = ids[0].tolist(), [], []
    for _ in range(NEW):
        with torch.no_grad():
            best = net(ids, use_cache=False).logits[0, -1].topk(2)
        tokens.append(best.indices[0].item())
        gaps.append(round((best.values[0] - best.values[1]).item(), 6))
        ids = torch.cat([ids, best.indices[:1][None]], dim=1)
    expected = {"prompt": prompt, "tokens": tokens, "gaps": gaps}
    (folder / "greedy.json").write_text(json.dumps(expected) + "\n")
    print(name, min(gaps), len(set(tokens)), sum(p.numel() for p in net.parameters()))


if __name__ == "__main__":
    for name, settings in FAMILIES.items():
        make(name, settings)
