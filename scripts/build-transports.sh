#!/usr/bin/env bash
# Builds the transports that are plugins: scripts/build-transports.sh [--lies] [SYSTEM...], all of them without a name.
# With --parquet it builds tools/parquet, the program for `--raw parquet`, and nothing else.
#
# A plugin is a folder transports/SYSTEM with a Makefile, which makes $OUT/tripmeter_SYSTEM.so, or with a Cargo.toml
# that says `plugin = true` under [package.metadata.tripmeter]; programs of that crate whose names begin with
# tripmeter_SYSTEM_ are put beside it. OUT is the output folder (default target/transports).
#
# With --lint it holds the crates among them, and the others below bench/, to clippy: by building them, so that the
# libraries are shared with the plugins.
#
# With --lies it builds the plugins that do not keep their word, for tests: OUT/tripmeter_SYSTEM.so, or tripmeter_SYSTEM-N.so
# for lie N, are copies of tests/plugins/lies.c, which has a table of them; each stands around the true plugin in OUT/true.
#
# What was built is kept in $XDG_CACHE_HOME/tripmeter/plugins, and taken from there as long as its sources, compilers and
# libraries are the same. TRIPMETER_PLUGIN_CACHE names another folder; set and empty, nothing is kept.
#
# PROFILE=dev builds crates without optimisation, which takes a third of the time: for tests, never for measuring.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${OUT:-$PWD/target/transports}
mkdir -p "$out"
out=$(cd "$out" && pwd)
target=${CARGO_TARGET_DIR:-$PWD/target}/plugins
cache=${TRIPMETER_PLUGIN_CACHE-${XDG_CACHE_HOME:-$HOME/.cache}/tripmeter/plugins}
# Builds kept of each system: enough for a few branches.
most_kept=4
profile=${PROFILE:-release}
lies=0
lint=0
case ${1:-} in
    --lies)
        lies=1
        shift
        ;;
    --lint)
        lint=1
        shift
        ;;
    --parquet)
        CARGO_TARGET_DIR=$target cargo build --profile "$profile" --locked --manifest-path tools/parquet/Cargo.toml
        [[ $profile == dev ]] && profile=debug
        install -t "$out" "$target/$profile/tripmeter_parquet"
        echo "build-transports: tripmeter_parquet in $out"
        exit 0
        ;;
esac

# Prints `make`, `cargo` or nothing: how the folder $1 is built.
kind() {
    if [[ -f $1/Makefile ]]; then
        echo make
    elif [[ -f $1/Cargo.toml ]] && sed -n '/^\[package\.metadata\.tripmeter\]/,/^\[/p' "$1/Cargo.toml" |
        grep -Eq '^plugin *= *true'; then
        echo cargo
    fi
}

# Prints the names of plugins that lie: SYSTEM, or SYSTEM-N for lie N.
lying() {
    sed -n 's/^    {"\([a-z0-9-]*\)", ".*/\1/p' tests/plugins/lies.c | sort -u
}

# Prints a name for everything that goes into the plugin of folder $1.
fingerprint() {
    local folders=("$1" crates/abi) name packages
    while IFS= read -r name; do
        [[ ! -d transports/$name ]] || folders+=("transports/$name")
    done < <(grep -rhoE '\.\./[a-z0-9_-]+/' "$1" --include=Makefile --include=Cargo.toml --include='*.rs' \
        --include='*.[ch]' --include='*.[ch]pp' | cut -d/ -f2 | sort -u)
    packages=$(sed -n '/^packages/,/\]/p' "$1/transport.toml" 2>/dev/null | grep -o '"[^"]*"' | tr -d '"' || true)
    {
        echo "$profile" "$HOME" "${XDG_DATA_HOME:-}"
        env | grep -E '^(AMENT_PREFIX_PATH|CARGO_PROFILE_.*|CC|CXX|C(XX|PP)?FLAGS|ICEORYX.*|LDFLAGS|ROS2_.*|RUSTFLAGS)=' |
            sort || true
        rustc -vV
        c++ --version 2>/dev/null || true
        # Several words.
        # shellcheck disable=SC2086
        [[ -z $packages ]] || dpkg-query -W $packages 2>/dev/null || true
        find "${folders[@]}" Cargo.toml clippy.toml scripts/build-transports.sh -type f -not -path '*/build/*' -print0 | sort -z | xargs -0 sha256sum
    } | sha256sum | cut -c1-32
}

# Builds the crate in folder $1 as plugin of system $2 into folder $3.
build_crate() {
    local library made=$target/$profile
    [[ $profile != dev ]] || made=$target/debug
    CARGO_TARGET_DIR=$target cargo build --profile "$profile" --locked --manifest-path "$1/Cargo.toml" || return 1
    library=$(sed -n '/^\[lib\]/,/^\[/s/^name *= *"\(.*\)"/\1/p' "$1/Cargo.toml")
    [[ -n $library ]] || library=$(sed -n '/^\[package\]/,/^\[/s/^name *= *"\(.*\)"/\1/p' "$1/Cargo.toml")
    cp "$made/lib${library//-/_}.so" "$3/tripmeter_$2.so" || return 1
    find "$made" -maxdepth 1 -type f -executable -name "tripmeter_$2_*" -exec install -t "$3" {} +
}

# Builds system $1 into the empty folder $2; $3 names everything that goes into it.
build() {
    local folder=transports/$1 built=0 objects
    case $(kind "$folder") in
        make)
            objects=${CARGO_TARGET_DIR:-$PWD/target}/objects/$3
            mkdir -p "$objects"
            make -C "$folder" OUT="$2" OBJECTS_DIR="$objects" || built=1
            ;;
        cargo) build_crate "$folder" "$1" "$2" || built=1 ;;
    esac
    if [[ $built -eq 0 && -f $2/tripmeter_$1.so ]]; then
        return 0
    fi
    if grep -qs '^python_packages' "$folder/transport.toml"; then
        echo "build-transports: $1 failed; it needs what \`tripmeter install $1\` installs" \
            "(scripts/install-middleware.sh does so, too)" >&2
    else
        echo "build-transports: $1 failed; it needs:" \
            "$(grep -s '^packages' "$folder/transport.toml" || echo 'see the messages above')" \
            "(scripts/install-middleware.sh installs them)" >&2
    fi
    return 1
}

# Puts system $1 into the output folder, from the cache or built now.
provide() {
    local name made kept
    name=$1.$(fingerprint "transports/$1") || return 1
    kept=$cache/$name
    made=$(mktemp -d "$out/.building.XXXXXX") || return 1
    if [[ -n $cache ]] && cp -r -- "$kept/." "$made" 2>/dev/null; then
        touch -c -- "$kept"
    elif ! build "$1" "$made" "$name" || ! keep "$1" "$made" "$kept"; then
        rm -rf -- "$made"
        return 1
    fi
    find "$made" -maxdepth 1 -type f -exec mv -t "$out" {} + || return 1
    rm -rf -- "$made"
}

# Keeps what was built of system $1 in folder $2 as $3 in the cache, with the newest others of that system.
keep() {
    local copy
    [[ -n $cache ]] || return 0
    mkdir -p "$cache" && copy=$(mktemp -d "$cache/.copy.XXXXXX") && cp -r -- "$2/." "$copy" || return 1
    # Another build may have been first.
    mv -T -- "$copy" "$3" 2>/dev/null || rm -rf -- "$copy"
    # shellcheck disable=SC2012
    ls -dt "$cache/$1."* | tail -n "+$((most_kept + 1))" | xargs -r rm -rf --
}

# Holds the crate in folder $1 to clippy, as `cargo clippy` would do it, unless its sources were held to it before.
lint_crate() {
    local stamp=
    if [[ -n $cache ]]; then
        stamp=$cache/linted-${1//\//-}-$(fingerprint "$1") || return 1
        [[ ! -e $stamp ]] || return 0
    fi
    RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__ CARGO_TARGET_DIR=$target \
        cargo build --quiet --profile "$profile" --all-targets --locked --manifest-path "$1/Cargo.toml" || return 1
    if [[ -n $stamp ]]; then
        mkdir -p "$cache"
        rm -f -- "$cache/linted-${1//\//-}-"*
        touch "$stamp"
    fi
}

if [[ $lint -eq 1 ]]; then
    while IFS= read -r manifest; do
        lint_crate "${manifest%/Cargo.toml}"
    done < <(grep -l '^\[workspace\]' transports/*/Cargo.toml transports/common/*/Cargo.toml bench/native/*/Cargo.toml tools/*/Cargo.toml)
    exit 0
fi

systems=("$@")
if [[ $lies -eq 1 ]]; then
    around=$out
    out=$around/true
    mkdir -p "$out"
    [[ ${#systems[@]} -ne 0 ]] || mapfile -t systems < <(lying | sed 's/-[0-9]$//' | sort -u)
fi
if [[ ${#systems[@]} -eq 0 ]]; then
    for folder in transports/*/; do
        folder=${folder%/}
        [[ -z $(kind "$folder") ]] || systems+=("${folder##*/}")
    done
fi

failed=()
for system in "${systems[@]}"; do
    if [[ -z $(kind "transports/$system") ]]; then
        echo "build-transports: $system: no plugin in transports/$system" >&2
        failed+=("$system")
        continue
    fi
    provide "$system" || failed+=("$system")
done
if [[ $lies -eq 1 ]]; then
    make -s -C tests/plugins OUT="$out" lies
    for name in $(lying); do
        [[ ! -e $out/tripmeter_${name%-[0-9]}.so ]] || cp -- "$out/lies.so" "$around/tripmeter_$name.so"
    done
fi
if [[ ${#failed[@]} -ne 0 ]]; then
    echo "build-transports: ${#failed[@]} of ${#systems[@]} failed: ${failed[*]}" >&2
    exit 69
fi
echo "build-transports: ${#systems[@]} in $out: ${systems[*]}"
