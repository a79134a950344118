#!/usr/bin/env bash
# A headless Chromium for `make test-page`: the one on this machine, or Debian's packages unpacked into .tools (no root
# needed, 95 MB to fetch). Leaves .tools/bin/chromium-headless, a command that starts it.
set -eu
cd "$(dirname "$0")/.."
mkdir -p .tools/bin
command=.tools/bin/chromium-headless

works() { timeout 60 "$1" --headless --no-sandbox --disable-gpu --dump-dom "data:text/html,<p>page</p>" 2>/dev/null | grep -q page; }

for name in chromium-headless-shell chromium google-chrome chrome; do
    if found=$(command -v "$name") && works "$found"; then
        ln -sf "$found" "$command"
        exit 0
    fi
done
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "feedline: there is no Chromium, and without apt-get none can be fetched; install chromium and try again" >&2
    exit 1
fi

root=$PWD/.tools/chromium
rm -rf "$root"
mkdir -p "$root/packages"
# What installing it would bring, beside what this machine has: a simulation needs no rights.
wanted() { apt-get install -qq --simulate --no-install-recommends chromium-headless-shell fontconfig-config fonts-dejavu-core; }
{ wanted || { apt-get update -qq >&2 && wanted; }; } 2>/dev/null | sed -n 's/^Inst \([^ ]*\) .*/\1/p' >"$root/names"
(cd "$root/packages" && xargs apt-get download -qq <"$root/names" >/dev/null)
for package in "$root"/packages/*.deb; do
    dpkg-deb -x "$package" "$root"
done
rm -r "$root/packages"

binary=$(find "$root/usr/lib/chromium" -name headless_shell -o -name chromium-headless-shell | head -1)
libraries=$(find "$root/usr/lib" "$root/lib" -name '*.so*' -printf '%h\n' 2>/dev/null | sort -u | paste -sd:)
# Fonts of this machine, if it has any, and those that came along.
cat >"$root/fonts.conf" <<FONTS
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>/usr/share/fonts</dir><dir>$root/usr/share/fonts</dir><cachedir>$root/fonts</cachedir>
<match><edit name="family" mode="append"><string>DejaVu Sans</string></edit></match></fontconfig>
FONTS
cat >"$command" <<START
#!/bin/sh
LD_LIBRARY_PATH="$libraries" FONTCONFIG_FILE="$root/fonts.conf" exec "$binary" "\$@"
START
chmod +x "$command"
works "$command" || {
    echo "feedline: the Chromium of Debian's packages does not start; try $command --headless --no-sandbox --dump-dom about:blank" >&2
    exit 1
}
