#!/usr/bin/env bash
# Builds the transports that are plugins: scripts/build-transports.sh [SYSTEM...], all of them without an argument.
#
# A plugin is a folder transports/SYSTEM with a Makefile, which makes $OUT/tripmeter_SYSTEM.so, or with a Cargo.toml
# that says `plugin = true` under [package.metadata.tripmeter]; programs of that crate whose names begin with
# tripmeter_SYSTEM_ are put beside it. OUT is the output folder (default target/transports).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${OUT:-$PWD/target/transports}
mkdir -p "$out"
out=$(cd "$out" && pwd)

# Prints `make`, `cargo` or nothing: how the folder $1 is built.
kind() {
    if [[ -f $1/Makefile ]]; then
        echo make
    elif [[ -f $1/Cargo.toml ]] && sed -n '/^\[package\.metadata\.tripmeter\]/,/^\[/p' "$1/Cargo.toml" |
        grep -Eq '^plugin *= *true'; then
        echo cargo
    fi
}

# Builds the crate in folder $1 as plugin of system $2.
build_crate() {
    local target=${CARGO_TARGET_DIR:-$PWD/target}/plugins library
    CARGO_TARGET_DIR=$target cargo build --release --locked --manifest-path "$1/Cargo.toml" || return 1
    library=$(sed -n '/^\[lib\]/,/^\[/s/^name *= *"\(.*\)"/\1/p' "$1/Cargo.toml")
    [[ -n $library ]] || library=$(sed -n '/^\[package\]/,/^\[/s/^name *= *"\(.*\)"/\1/p' "$1/Cargo.toml")
    cp "$target/release/lib${library//-/_}.so" "$out/tripmeter_$2.so" || return 1
    find "$target/release" -maxdepth 1 -type f -executable -name "tripmeter_$2_*" -exec install -t "$out" {} +
}

# Builds system $1; on failure says what to install.
build() {
    local folder=transports/$1 built=0
    case $(kind "$folder") in
        make) make -C "$folder" OUT="$out" || built=1 ;;
        cargo) build_crate "$folder" "$1" || built=1 ;;
        *)
            echo "build-transports: $1: no plugin in $folder" >&2
            return 1
            ;;
    esac
    if [[ $built -eq 0 && -f $out/tripmeter_$1.so ]]; then
        return 0
    fi
    if grep -qs '^python_packages' "$folder/transport.toml"; then
        echo "build-transports: $1 failed; it needs what \`tripmeter setup $1\` installs" \
            "(scripts/install-middleware.sh does so, too)" >&2
    else
        echo "build-transports: $1 failed; it needs:" \
            "$(grep -s '^packages' "$folder/transport.toml" || echo 'see the messages above')" \
            "(scripts/install-middleware.sh installs them)" >&2
    fi
    return 1
}

systems=("$@")
if [[ ${#systems[@]} -eq 0 ]]; then
    for folder in transports/*/; do
        folder=${folder%/}
        [[ -z $(kind "$folder") ]] || systems+=("${folder##*/}")
    done
fi

failed=()
for system in "${systems[@]}"; do
    build "$system" || failed+=("$system")
done
if [[ ${#failed[@]} -ne 0 ]]; then
    echo "build-transports: ${#failed[@]} of ${#systems[@]} failed: ${failed[*]}" >&2
    exit 69
fi
echo "build-transports: ${#systems[@]} in $out: ${systems[*]}"
