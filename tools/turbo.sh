#!/usr/bin/env bash
# Finds what libjpeg-turbo is built with, cmake and nasm: on this machine, or from the registries into .tools/bin.
# Writes the Cargo feature to build with into .tools/turbo: "turbo", or nothing if they cannot be had.
set -u
cd "$(dirname "$0")/.."
mkdir -p .tools/bin
export PATH="$PWD/.tools/bin:$PATH"

if ! command -v cmake >/dev/null && [ -x .venv/bin/cmake ]; then
    ln -sf ../../.venv/bin/cmake .tools/bin/cmake
fi
if ! command -v nasm >/dev/null && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    fetch() { (cd .tools && apt-get download -qq nasm) >/dev/null 2>&1; }
    { fetch || { apt-get update -qq >/dev/null 2>&1; fetch; }; } &&
        (cd .tools && dpkg-deb -x nasm_*.deb nasm && ln -sf ../nasm/usr/bin/nasm bin/nasm)
    rm -f .tools/nasm_*.deb
fi

if cmake --version >/dev/null 2>&1 && nasm -v >/dev/null 2>&1; then
    echo turbo >.tools/turbo
else
    echo "feedline: cmake and nasm are not there, so JPEG is decoded by zune-jpeg and not by libjpeg-turbo: slower, and" >&2
    echo "some pixels differ by a few levels. Install both and remove .tools to change that." >&2
    : >.tools/turbo
fi
