"""Stands in for the module `vllm` in sal_pipeline.py: its LLM asks a vLLM server, all prompts of a call at once."""
import concurrent.futures
import http.client
import json
import os
import threading
import urllib.parse


class SamplingParams:
    def __init__(self, **fields):
        self.fields = fields


class Output:
    def __init__(self, choice, usage):
        self.outputs = [type("Completion", (), {"token_ids": choice["token_ids"]})]
        self.num_cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0


class LLM:
    def __init__(self, max_num_seqs, **_):
        self.address = urllib.parse.urlparse(os.environ["SERVER_URL"]).netloc
        self.pool = concurrent.futures.ThreadPoolExecutor(max_num_seqs)
        self.local = threading.local()
        self.model = self.call("GET", "/v1/models")["data"][0]["id"]

    def call(self, method, path, body=None):
        if not hasattr(self.local, "connection"):
            self.local.connection = http.client.HTTPConnection(self.address)
        self.local.connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
        answer = self.local.connection.getresponse()
        data = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}: {data}")
        return data

    def generate(self, prompts, params, use_tqdm):
        def one(prompt):
            body = {"model": self.model, "prompt": prompt["prompt_token_ids"], "return_token_ids": True, **params.fields}
            data = self.call("POST", "/v1/completions", body)
            return Output(data["choices"][0], data["usage"])

        return list(self.pool.map(one, prompts))
