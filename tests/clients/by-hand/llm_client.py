"""llm: python llm_client.py http://127.0.0.1:8080, by a file extra-openai-models.yaml"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

problem = "Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?"
with tempfile.TemporaryDirectory() as folder:
    model = f"- model_id: beamgen\n  model_name: single\n  api_base: {sys.argv[1]}/v1\n  api_key_name: beamgen\n"
    Path(folder, "extra-openai-models.yaml").write_text(model)
    for name, more in {"streamed": [], "whole": ["--no-stream"]}.items():
        command = [sys.executable, "-m", "llm", "-m", "beamgen", "--key", "none", *more, problem]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"LLM_USER_PATH": folder})
        print(name, repr(done.stdout), done.stderr[-200:])
