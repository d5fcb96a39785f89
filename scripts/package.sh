#!/usr/bin/env bash
# Packages of a release: scripts/package.sh COMMAND
#
#   build              builds the program for a release: target/dist/tripmeter
#   tree DIR [PREFIX]  puts the program, man pages, completions, headers, pkg-config and CMake files below DIR/PREFIX
#                      (default PREFIX: /usr)
#   deb                Debian packages: tripmeter, and one for each group of transports that may be built beforehand
#   wheel              a Python wheel with the program and `tripmeter.load`
#   all                deb, wheel, and SHA256SUMS, in place of existing ones
#   test RESULTS       installs tree and wheel into temporary folders, builds the C example by pkg-config and by CMake, and
#                      reads the results folder RESULTS with pandas and polars; it must have one sub-experiment with two
#                      payloads of 50 round trips, like crates/tripmeter/tests/golden/results-2.0
#   lint               runs lintian on the packages of this version; it must find no error and no warning
#   size               fails if the stripped program exceeds its budget, or does not export functions that libraries call
#   reproducible       builds the same sources in another folder; stripped, the program must be the same to the byte
#
# PROGRAM is the program (default target/dist/tripmeter), TRANSPORTS the folder of plugins (default
# target/transports), OUT the folder of packages (default target/packages). The group of a system is `deb` in its
# transport.toml. Systems without a group are not built beforehand: ros2 is linked with the Python packages of a user.
# SOURCE_DATE_EPOCH is the time of the last commit.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ ${1:-} == --help || ${1:-} == -h ]]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' scripts/package.sh
    exit
fi
target=$(realpath -m -- "${CARGO_TARGET_DIR:-target}")
program=${PROGRAM:-$target/dist/tripmeter}
transports=${TRANSPORTS:-$target/transports}
out=${OUT:-$target/packages}
# Maximum bytes of the stripped program: less than 15 MB.
most_bytes=14999999
version=$(sed -n '/^\[workspace\.package\]/,/^\[/s/^version *= *"\(.*\)"/\1/p' Cargo.toml)
# Publishers of packages put their own name and address here.
maintainer=${MAINTAINER:-Tripmeter developers <packages@tripmeter.invalid>}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}
export SOURCE_DATE_EPOCH
umask 022

fail() {
    echo "package: $1" >&2
    exit "${2:-69}"
}

# compile SOURCES TARGET: builds the program from a source folder. The program contains no paths of this machine, and
# flags in the environment and in cargo's configuration have no effect.
compile() (
    cd "$1"
    sysroot=$(rustc --print sysroot)
    # Path of the standard library in a compiler without its sources. Of several matching prefixes, the last one counts.
    library=/rustc/$(rustc -vV | sed -n 's/^commit-hash: //p')
    maps=("$(pwd -P)=/tripmeter" "$2=/tripmeter/target" "${CARGO_HOME:-$HOME/.cargo}=/cargo"
        "$sysroot/lib/rustlib/src/rust=$library")
    printf -v flags '\x1f--remap-path-prefix=%s' "${maps[@]}"
    env -u CARGO_BUILD_TARGET CARGO_INCREMENTAL=0 CARGO_TARGET_DIR="$2" CARGO_ENCODED_RUSTFLAGS="${flags:1}" \
        CC_SHELL_ESCAPED_FLAGS=1 CFLAGS="$(printf ' -ffile-prefix-map=%q' "${maps[@]}")" \
        cargo build --locked --profile dist -p tripmeter
)

# fill FILE PREFIX: prints a template with its values filled in.
fill() {
    sed "s|@version@|$version|; s|@series@|${version%.*}|; s|@prefix@|$2|" "$1"
}

# tree DIR PREFIX
tree() {
    local root=$1$2 share=$1$2/share pages
    [[ -x $program ]] || fail "'$program' is not there; scripts/package.sh build"
    mkdir -p "$root/bin" "$root/lib/tripmeter/transports" "$share/man/man1" "$share/pkgconfig" "$share/cmake/tripmeter"
    strip -o "$root/bin/tripmeter" "$program"
    pages=$("$program" man "$share/man/man1") || fail "no man pages: $pages"
    gzip -9n "$share"/man/man1/*.1
    mkdir -p "$share/bash-completion/completions" "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d"
    "$program" completions bash >"$share/bash-completion/completions/tripmeter"
    "$program" completions zsh >"$share/zsh/vendor-completions/_tripmeter"
    "$program" completions fish >"$share/fish/vendor_completions.d/tripmeter.fish"
    install -D -m 644 -t "$root/include/tripmeter" crates/abi/include/*
    fill packaging/tripmeter.pc.in "$2" >"$share/pkgconfig/tripmeter.pc"
    for name in tripmeter-config tripmeter-config-version; do
        fill "packaging/$name.cmake.in" "$2" >"$share/cmake/tripmeter/$name.cmake"
    done
    # Documents and the files that they link, in the same folders, so that links work. Debian calls the licence file
    # copyright.
    install -D -m 644 -t "$share/doc/tripmeter" {README,ARCHITECTURE,CONTRIBUTING,CHANGELOG,SECURITY}.md action.yml \
        packaging/copyright
    sed -i 's/](LICENSE-[A-Z]*)/](copyright)/g' "$share/doc/tripmeter/README.md"
    for folder in docs docs/plots schema ci archive/queries findings; do
        mkdir -p "$share/doc/tripmeter/$folder"
        find "$folder" -maxdepth 1 -type f -regex '.*\.\(md\|svg\|json\|yml\|sql\|sh\)' \
            -exec install -m 644 -t "$share/doc/tripmeter/$folder" {} +
    done
    install -D -m 644 -t "$share/doc/tripmeter/examples/c-transport" examples/c-transport/{Makefile,README.md,example.c}
}

# groups: prints `PACKAGE SYSTEM MANIFEST-OR-- SUGGESTED,...` for each system that is built beforehand.
groups() {
    python3 - <<'END'
import pathlib, tomllib
for file in sorted(pathlib.Path("transports").glob("*/transport.toml")):
    sidecar = tomllib.loads(file.read_text())
    manifest = file.with_name("Cargo.toml")
    suggested = [name for name in sidecar.get("packages", []) if not name.endswith("-dev")]
    if sidecar.get("deb"):
        print(sidecar["deb"], sidecar["system"], manifest if manifest.exists() else "-", ",".join(suggested) or "-")
print("tripmeter-parquet", "parquet", "tools/parquet/Cargo.toml", "-")
END
}

# third_party PACKAGE MANIFEST...: writes its notices below the folder $scratch/PACKAGE.
third_party() {
    local package=$1 doc=$scratch/$1/usr/share/doc/$1
    shift
    mkdir -p "$doc"
    python3 scripts/package/licences.py "$@" >"$doc/third-party"
    gzip -9n "$doc/third-party"
}

# finish PACKAGE DEPENDS SUGGESTS SYNOPSIS TEXT: makes the package of the folder $scratch/PACKAGE.
finish() {
    local package=$1 folder=$scratch/$1 depends=$2 suggests=$3 synopsis=$4 text=$5
    local doc=$folder/usr/share/doc/$package arch control=$folder/DEBIAN/control libraries files
    arch=$(dpkg --print-architecture)
    mkdir -p "$doc" "$folder/DEBIAN"
    install -m 644 packaging/copyright "$doc/copyright"
    printf '%s (%s) unstable; urgency=medium\n\n  * What changed is in CHANGELOG.md of the sources.\n\n -- %s  %s\n' \
        "$package" "$version" "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" >"$doc/changelog"
    gzip -9n "$doc/changelog"
    # dpkg-shlibdeps reads the names of packages from this file.
    mkdir -p "$scratch/shlibs/debian"
    printf 'Source: tripmeter\n\nPackage: %s\nArchitecture: any\n' "$package" >"$scratch/shlibs/debian/control"
    mapfile -t files < <(find "$folder/usr/bin" "$folder/usr/lib" -type f 2>/dev/null)
    libraries=$(cd "$scratch/shlibs" && dpkg-shlibdeps --ignore-missing-info -O "${files[@]/#/-e}" | sed -n 's/^shlibs:Depends=//p')
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' "$package" "$version" "$arch" "$maintainer"
        printf 'Section: utils\nPriority: optional\nInstalled-Size: %s\n' "$(du -sk --apparent-size "$folder/usr" | cut -f1)"
        printf 'Depends: %s\n' "${depends:+$depends, }$libraries"
        [[ -z $suggests ]] || printf 'Suggests: %s\n' "$suggests"
        printf 'Description: %s\n%s\n' "$synopsis" "$(fold -s -w 76 <<<"$text" | sed 's/ *$//; s/^/ /')"
    } >"$control"
    (cd "$folder" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    dpkg-deb --root-owner-group -Zxz --build "$folder" "$out/${package}_${version}_$arch.deb" >/dev/null
    echo "$out/${package}_${version}_$arch.deb"
}

# missing LIST: prints the systems of a list of groups whose plugins are not in $transports.
missing() {
    local system file
    while read -r _ system _; do
        file=$transports/tripmeter_$system
        [[ $system == parquet ]] || file+=.so
        [[ -f $file ]] || echo "$system"
    done <"$1"
}

deb() {
    local package system manifest suggested list=$scratch/groups absent names systems manifests suggests folder
    groups >"$list"
    absent=$(missing "$list")
    [[ -z $absent ]] ||
        fail "no plugins in '$transports': ${absent//$'\n'/ }; scripts/build-transports.sh, and with --parquet, builds them"
    tree "$scratch/tripmeter" /usr
    find "$scratch/tripmeter/usr/lib" -depth -type d -empty -delete
    third_party tripmeter crates/tripmeter/Cargo.toml
    mapfile -t names < <(cut -d' ' -f1 "$list" | sort -u)
    finish tripmeter "" "$(printf '%s, ' "${names[@]}" | sed 's/, $//')" "measure latency and throughput of message paths" \
        "Tripmeter measures latency, throughput, loss and cost of messages between programs: sockets, pipes, queues and \
shared memory by itself, and middleware by the packages that it suggests. It proves the path of each message by what the \
kernel saw. It comes with the headers for transports of your own, and checks their plugins (tripmeter plugin-check)."
    for package in "${names[@]}"; do
        folder=$scratch/$package/usr/lib/tripmeter/transports
        mkdir -p "$folder"
        manifests=() systems=() suggests=()
        while read -r _ system manifest suggested; do
            systems+=("$system")
            [[ $manifest == - ]] || manifests+=("$manifest")
            [[ $suggested == - ]] || suggests+=("${suggested//,/, }")
            if [[ $system == parquet ]]; then
                strip -o "$folder/tripmeter_parquet" "$transports/tripmeter_parquet"
                continue
            fi
            strip --strip-unneeded -o "$folder/tripmeter_$system.so" "$transports/tripmeter_$system.so"
            chmod 644 "$folder/tripmeter_$system.so"
            for file in "$transports/tripmeter_${system}_"*; do
                [[ ! -f $file ]] || strip -o "$folder/${file##*/}" "$file"
            done
        done < <(grep "^$package " "$list")
        [[ ${#manifests[@]} -eq 0 ]] || third_party "$package" "${manifests[@]}"
        local all=${systems[*]} text
        text="Built plugins of Tripmeter for: ${all// /, }. Packages that they use beside their libraries, such as brokers \
and daemons, are suggested, and installed by \`tripmeter install\`."
        [[ $package != tripmeter-parquet ]] || text="The program with which Tripmeter writes samples as Parquet files, by \
the flag --raw parquet."
        finish "$package" "tripmeter (= $version)" "$(printf '%s\n' "${suggests[@]}" | tr -d ' ' | tr ',' '\n' | sort -u |
            paste -sd, | sed 's/,/, /g')" "${package#tripmeter-} for Tripmeter, which measures message paths" "$text"
    done
}

wheel() {
    strip -o "$scratch/program" "$program"
    python3 scripts/package/wheel.py "$scratch/program" "$out"
}

# headers: compiles the headers and the example in $scratch/tree as a user would.
headers() {
    local prefix=$scratch/tree/opt/tripmeter cflags sources=examples/c-transport
    # The file has the prefix after installation; here the tree is below another folder.
    cflags=$(PKG_CONFIG_PATH=$prefix/share/pkgconfig pkg-config --define-variable=prefix="$prefix" --cflags tripmeter)
    # Several words.
    # shellcheck disable=SC2086
    cc -std=c11 -Wall -Wextra -Werror -fPIC -shared $cflags -o "$scratch/tripmeter_example.so" $sources/example.c -pthread -lrt
    printf '#include "tripmeter_plugin.hpp"\n' >"$scratch/header.cpp"
    # shellcheck disable=SC2086
    c++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only $cflags "$scratch/header.cpp"
    "$prefix/bin/tripmeter" list example --plugin "$scratch/tripmeter_example.so" | grep -q 'example/mailbox'
    # Builds the installed example, which cannot find the headers in the sources.
    cp -r "$prefix/share/doc/tripmeter/examples/c-transport" "$scratch/example"
    mkdir "$scratch/pc"
    sed "s|^prefix=.*|prefix=$prefix|" "$prefix/share/pkgconfig/tripmeter.pc" >"$scratch/pc/tripmeter.pc"
    PKG_CONFIG_PATH=$scratch/pc make --silent -C "$scratch/example"
    if ! command -v cmake >/dev/null; then
        echo "SKIPPED: the CMake package: no cmake" >&2
        return
    fi
    mkdir "$scratch/cmake"
    cp "$sources/example.c" "$scratch/cmake"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(mine C)' "find_package(tripmeter ${version%.*} REQUIRED)" \
        'tripmeter_add_transport(example example.c)' >"$scratch/cmake/CMakeLists.txt"
    cmake -S "$scratch/cmake" -B "$scratch/cmake/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
    cmake --build "$scratch/cmake/build" >/dev/null
    "$prefix/bin/tripmeter" list example --plugin "$scratch/cmake/build/tripmeter_example.so" | grep -q 'example/mailbox'
    # A request for another version series must be refused.
    sed -i 's/find_package(tripmeter [0-9.]*/find_package(tripmeter 99.0/' "$scratch/cmake/CMakeLists.txt"
    ! cmake -S "$scratch/cmake" -B "$scratch/cmake/other" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null 2>&1 ||
        fail "the CMake package accepts any version" 1
}

# A plugin must not be taken for that of a system whose name begins with the same word.
missing_is_named() {
    local transports=$scratch/transports found
    mkdir "$transports"
    groups >"$scratch/groups"
    while read -r _ system _; do
        touch "$transports/tripmeter_$system.so"
    done <"$scratch/groups"
    mv -- "$transports"/tripmeter_parquet{.so,}
    rm -- "$transports"/tripmeter_{iceoryx,zenoh}.so
    found=$(missing "$scratch/groups" | sort | paste -sd' ')
    [[ $found == "iceoryx zenoh" ]] || fail "plugins of iceoryx and zenoh are missing, and it says: '$found'" 1
}

# documents DIR: prints broken links in its documents.
documents() {
    python3 - "$1" <<'END'
import pathlib, re, sys
for file in sorted(pathlib.Path(sys.argv[1]).rglob("*.md")):
    text = re.sub("```.*?```", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)#\s]+)", text):
        if ":" not in link and not (file.parent / link).exists():
            print(f"{file}: {link}")
END
}

# installed RESULTS: checks that the installed files work.
installed() {
    local prefix=$scratch/tree/opt/tripmeter venv=$target/tools/wheel words broken folder
    missing_is_named
    tree "$scratch/tree" /opt/tripmeter
    [[ -s $prefix/share/doc/tripmeter/docs/formats.md ]] || fail "no docs/formats.md beside README.md" 1
    broken=$(documents "$prefix/share/doc/tripmeter")
    [[ -z $broken ]] || fail "links of documents lead nowhere: $broken" 1
    [[ $(zcat "$prefix/share/man/man1/tripmeter-ping.1.gz") == *.TH* ]] || fail "no man page of ping" 1
    bash -n "$prefix/share/bash-completion/completions/tripmeter"
    # Asks for completions as bash does.
    words=$(bash -c 'source "$1"; COMP_WORDS=(tripmeter plugin-c); COMP_CWORD=1; _tripmeter tripmeter plugin-c tripmeter; echo "${COMPREPLY[*]}"' \
        - "$prefix/share/bash-completion/completions/tripmeter")
    [[ $words == plugin-check ]] || fail "bash completes 'plugin-c' to '$words'" 1
    grep -q '^#compdef tripmeter' "$prefix/share/zsh/vendor-completions/_tripmeter"
    grep -q '^complete -c tripmeter' "$prefix/share/fish/vendor_completions.d/tripmeter.fish"
    headers
    out=$scratch wheel
    if ! cmp -s packaging/requirements.txt "$venv/installed"; then
        rm -rf -- "$venv"
        python3 -m venv "$venv"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r packaging/requirements.txt
        cp packaging/requirements.txt "$venv/installed"
    fi
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall "$scratch"/*.whl
    "$venv/bin/python" tests/check_wheel.py "$1" pandas polars
    # Results of every version that can be read.
    for folder in crates/tripmeter/tests/golden/results-*; do
        "$venv/bin/python" -c 'import sys, tripmeter; sys.exit(not len(tripmeter.load(sys.argv[1], "pandas").metrics))' "$folder"
    done
}

size() {
    local bytes symbol
    strip -o "$scratch/tripmeter" "$program"
    # Without these functions, libraries open shared memory to others: crates/engine/src/os/for_this_user.rs.
    for symbol in umask fchmod; do
        nm -D --defined-only "$scratch/tripmeter" | grep -q " T $symbol\$" || fail "$program does not export $symbol" 1
    done
    bytes=$(stat -c %s "$scratch/tripmeter")
    echo "$program: $bytes bytes when stripped, the budget is $most_bytes"
    [[ $bytes -le $most_bytes ]]
}

# Anyone who builds the sources of a release must get the program of that release.
reproducible() {
    local folder=$scratch/another-folder hashes=() file
    [[ -x $program ]] || fail "'$program' is not there; scripts/package.sh build"
    mkdir -p "$folder"
    git ls-files -z | xargs -0 cp --parents -t "$folder"
    compile "$folder" "$folder/target"
    for file in "$program" "$folder/target/dist/tripmeter"; do
        strip -o "$scratch/stripped" "$file"
        hashes+=("$(sha256sum <"$scratch/stripped" | cut -d' ' -f1)")
    done
    printf '%s  %s\n' "${hashes[0]}" "$program" "${hashes[1]}" "the same sources in another folder"
    [[ ${hashes[0]} == "${hashes[1]}" ]] ||
        fail "'$program' is not what scripts/package.sh build makes of these sources in another folder" 1
}

mkdir -p "$target" "$out"
scratch=$(mktemp -d "$target/package.XXXXXX")
trap 'rm -rf -- "$scratch"' EXIT
case "${1:-} $#" in
    'build 1') compile "$PWD" "$target" ;;
    'tree 2' | 'tree 3') tree "$2" "${3:-/usr}" ;;
    'deb 1') deb ;;
    'wheel 1') wheel ;;
    'all 1')
        # Removes packages of earlier versions.
        rm -f -- "$out"/tripmeter_*.deb "$out"/tripmeter-*_*.deb "$out"/tripmeter-*.whl "$out/SHA256SUMS"
        deb
        wheel
        (cd "$out" && sha256sum -- tripmeter*_"$version"_*.deb tripmeter-"$version"-*.whl >SHA256SUMS)
        ;;
    'test 2') installed "$2" ;;
    'lint 1') lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$out"/tripmeter*_"$version"_*.deb ;;
    'size 1') size ;;
    'reproducible 1') reproducible ;;
    *) fail "usage: scripts/package.sh build | tree DIR [PREFIX] | deb | wheel | all | test RESULTS | lint | size | reproducible" 64 ;;
esac
