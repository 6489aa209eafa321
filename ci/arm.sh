# A Python for 64-bit Arm that runs on this machine: Debian's, emulated by qemu. For ci/python.

arm_root=$PWD/target/arm-root
# Unpacks the packages and all that they need. apt gets folders of its own, so nothing is installed.
fetch_arm_root() {
    local apt=$PWD/target/arm-apt package options
    options=(-qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$apt/state" -o Dir::Cache="$apt/cache" -o Dir::State::status=/dev/null)
    mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
    apt-get "${options[@]}" update && apt-get "${options[@]}" --download-only --no-install-recommends -y install python3 libstdc++6 || return
    for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$arm_root" || return; done
}

# `arm_python FOLDER` makes an environment like `python3 -m venv --without-pip`. Its python is a
# script, so that tests can start it as they start any other program.
arm_python() {
    command -v qemu-aarch64 >/dev/null || debian qemu-user || return
    [ -x "$arm_root/usr/bin/python3" ] || retry fetch_arm_root || return
    mkdir -p "$1/bin"
    echo "home = $arm_root/usr/bin" >"$1/pyvenv.cfg"
    printf '#!/bin/sh\nexec %s -L %s -0 "$0" %s "$@"\n' "$(command -v qemu-aarch64)" "$arm_root" "$arm_root/usr/bin/python3" >"$1/bin/python"
    chmod +x "$1/bin/python"
    ln -s python "$1/bin/python3"
}
