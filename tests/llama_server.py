"""Serves a GGUF file by llama.cpp's own HTTP server (the wheel xllamacpp), for tests/servers.rs.

llama_server.py FILE PORT: prints the address when it listens, and ends with its stdin. All is computed in
float32, as in our engine: llama.cpp would round activations to the weights' type, and attention to float16.
"""

import sys
import tempfile

import gguf
import xllamacpp


def unpacked(path, to):
    """A copy of a GGUF file with all weights in float32."""
    reader = gguf.GGUFReader(path)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(to, architecture)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind, *inner = field.types
        writer.add_key_value(name, field.contents(), kind, *inner[-1:])
    for tensor in reader.tensors:
        data = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, data.astype("float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


params = xllamacpp.CommonParams()
with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
    unpacked(sys.argv[1], file.name)
    params.model.path = file.name
    params.model_alias = {sys.argv[1]}
    params.port = int(sys.argv[2])
    params.n_ctx = 4096
    params.n_parallel = 4
    params.kv_unified = True
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cpuparams.n_threads = 2
    params.warmup = False
    params.verbosity = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
