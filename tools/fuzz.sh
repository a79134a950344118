#!/bin/sh
# Fuzzes the parsers, one after the other: tools/fuzz.sh [SECONDS] [TARGET...]
#
# Each target of fuzz/fuzz_targets (or each that is named) runs for SECONDS (240 if none are given). What it found new is kept in
# fuzz/corpus, as few and as small inputs as cover the same code; inputs that have a name, and not a hash, are kept in any
# case. A line says what came of it. Inputs that crash, hang or take too much memory are put into fuzz/artifacts, and the
# script fails then: make each smaller (`TARGET -minimize_crash=1 -runs=100000 INPUT`), give it a name in the corpus, and
# write a test.
#
# The toolchain is the one that builds everything else: RUSTC_BOOTSTRAP lets it add coverage and the address sanitizer.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
seconds=240
case "${1:-}" in
[0-9]*)
    seconds=$1
    shift
    ;;
esac

# cmake and nasm, where this checkout brings them: without them there are no pictures.
PATH=$root/.tools/bin:$PATH
export PATH
pictures=$(cat .tools/turbo 2>/dev/null || true)
if [ $# -eq 0 ]; then
    for file in fuzz/fuzz_targets/*.rs; do
        target=$(basename "$file" .rs)
        case $target in
        jpeg_* | picture) [ -n "$pictures" ] || continue ;;
        esac
        set -- "$@" "$target"
    done
fi

features=
for target; do
    case $target in
    jpeg_* | picture) features="$features --features pictures" ;;
    arrow_* | parquet_*) features="$features --features columnar" ;;
    esac
done

out=${CARGO_TARGET_DIR:-$root/target/fuzz}
triple=$(rustc -vV | sed -n 's/^host: //p')
pass="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
pass="$pass -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
pass="$pass -Cllvm-args=-sanitizer-coverage-trace-compares"
bins=$(printf ' --bin %s' "$@")
# shellcheck disable=SC2086
RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$out \
    RUSTFLAGS="--cfg fuzzing $pass -Zsanitizer=address -Cdebug-assertions -Coverflow-checks -Cforce-frame-pointers" \
    cargo build --release --quiet --manifest-path fuzz/Cargo.toml --target "$triple" $features $bins

# Memory of one allocation is limited, too: what a few bytes claim is not to be believed.
limits="-rss_limit_mb=2048 -malloc_limit_mb=512 -timeout=10"
ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-}
export ASAN_OPTIONS
crashed=0
printf '%-18s %8s %12s %8s %8s %8s\n' target seconds executions edges inputs crashes
for target; do
    bin=$out/$triple/release/$target
    work=$out/corpus/$target
    log=$out/$target.log
    kept=fuzz/corpus/$target
    found=fuzz/artifacts/$target
    mkdir -p "$work" "$kept" "$found"
    words=
    [ ! -f "fuzz/dict/$target" ] || words=-dict=fuzz/dict/$target
    # What consists of blocks needs some of them; what is short is tried more often.
    case $target in
    arrow_* | parquet_file | jpeg_* | picture | tar | web_dataset) longest=8192 ;;
    *) longest=2048 ;;
    esac
    status=0
    # shellcheck disable=SC2086
    "$bin" $limits $words -max_len=$longest -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="$found/" \
        "$work" "$kept" >"$log" 2>&1 || status=$?
    # The named ones, and of the others those that add to them.
    rm -rf "$work.min"
    mkdir "$work.min"
    for input in "$kept"/*; do
        [ -e "$input" ] || continue
        expr "$(basename "$input")" : '[0-9a-f]\{16,\}$' >/dev/null || cp "$input" "$work.min"
    done
    # shellcheck disable=SC2086
    if "$bin" $limits -merge=1 "$work.min" "$kept" "$work" >>"$log" 2>&1; then
        rm -rf "$kept"
        mkdir "$kept"
        # The smallest, if they are very many.
        find "$work.min" -type f -printf '%s %f\n' | sort -n | {
            files=0 bytes=0
            while read -r size name; do
                files=$((files + 1)) bytes=$((bytes + size))
                if expr "$name" : '[0-9a-f]\{16,\}$' >/dev/null && { [ $files -gt 150 ] || [ $bytes -gt 600000 ]; }; then
                    continue
                fi
                cp "$work.min/$name" "$kept"
            done
        }
    else
        status=1
    fi
    crashes=$(find "$found" -type f | wc -l)
    [ "$crashes" -gt 0 ] || rmdir "$found"
    if [ $status -ne 0 ] || [ "$crashes" -gt 0 ]; then
        crashed=1
    fi
    ran=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | head -1)
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | sort -n | tail -1)
    printf '%-18s %8s %12s %8s %8s %8s\n' "$target" "$seconds" "${ran:-?}" "${edges:-?}" "$(ls "$kept" | wc -l)" "$crashes"
done
rmdir fuzz/artifacts 2>/dev/null || true
exit $crashed
