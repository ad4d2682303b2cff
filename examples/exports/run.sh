#!/bin/sh
# Compiles examples/digits, exports it as one kind of package, and builds and runs the program in the folder of that kind with it.
#
#   examples/exports/run.sh KIND [FOLDER]      by default build/exports/KIND
#
# The commands are printed as they run. FOLDER/digits is the package, FOLDER/app the program. BUNDLE=DIR takes a bundle that is there;
# BUILD=no makes the folders and builds nothing. If the tool of a kind is not installed, the last line says what to run where it is
# installed, and the exit code is 4.
set -eu
examples=$(cd "$(dirname "$0")/.." && pwd)
kind=${1:?the kind of export: one of $(cd "$examples/exports" && echo */ | sed 's|common/||; s|/||g')}
[ -d "$examples/exports/$kind" ] && [ "$kind" != common ] || {
    echo "run.sh: no such example: $kind" >&2
    exit 2
}
mkdir -p "${2:-build/exports/$kind}"
folder=$(cd "${2:-build/exports/$kind}" && pwd)

case $kind in
make | cmake | shared | cpp | wheel | rust | platformio) target=generic ;; # they run on this computer
esp-idf) target=generic ;;                                                 # portable C for every ESP32
*) target=cortex-m4 ;;
esac

need() { # COMMAND INSTRUCTION...: end here where a tool is missing
    command -v "$1" >/dev/null && return
    shift
    echo "run.sh: the tool of this kind is not installed. Where it is installed, run: $*" >&2
    exit 4
}

set -x
[ -n "${BUNDLE:-}" ] || glowembed compile "$examples/digits/model.onnx" --data "$examples/digits/data.npz" --target $target --name digits -o "$folder/bundle"
glowembed export "${BUNDLE:-$folder/bundle}" --as "$kind" -o "$folder/digits"
rm -rf "$folder/app"
cp -R "$examples/exports/$kind" "$folder/app"
{ set +x; } 2>/dev/null

# What the programs share. Arduino's tools want all files in the folder of the sketch.
cd "$folder/app"
case $kind in
arduino) cp "$examples/exports/common/image.h" Digit/ ;;
cpp | wheel | rust | micropython) cp "$examples/exports/common/image.h" . ;;
zephyr | esp-idf) cp "$examples"/exports/common/classify.* "$examples/exports/common/image.h" . ;;
platformio)
    mkdir -p src
    cp "$examples"/exports/common/* src/
    ;;
*) cp "$examples"/exports/common/* . ;;
esac
[ "${BUILD:-yes}" != no ] || exit 0

case $kind in
make)
    set -x
    make
    ./app
    ;;
cmake)
    set -x
    cmake -S ../digits -B ../build -DCMAKE_INSTALL_PREFIX="$folder/installed" -DCMAKE_BUILD_TYPE=Release
    cmake --build ../build --target install
    cmake -B build -DCMAKE_PREFIX_PATH="$folder/installed" -DCMAKE_BUILD_TYPE=Release
    cmake --build build
    build/app
    ;;
shared)
    set -x
    make -C ../digits install PREFIX="$folder/installed"
    make PREFIX=../installed
    LD_LIBRARY_PATH=../installed/lib ./app
    ;;
cpp)
    set -x
    cc -std=c99 -O2 -I../digits/include -c ../digits/src/*.c
    c++ -std=c++17 -O2 -I../digits/include main.cpp ./*.o -o app
    ./app
    ;;
wheel)
    set -x
    python3 -m venv --system-site-packages environment
    environment/bin/python -m pip install -q ../digits
    environment/bin/python main.py
    ;;
rust)
    need cargo "cargo run"
    set -x
    cargo run -q --offline
    ;;
zephyr)
    need west "west build -b mps2/an386 -t run $folder/app"
    set -x
    west build -b mps2/an386 -t run
    ;;
esp-idf)
    need idf.py "cd $folder/app && idf.py set-target esp32c3 build flash monitor"
    set -x
    idf.py set-target esp32c3 build
    ;;
platformio)
    need pio "cd $folder/app && pio run -t exec"
    set -x
    pio run -t exec
    ;;
arduino)
    need arduino-cli "arduino-cli compile --fqbn arduino:renesas_uno:minima --library $folder/digits $folder/app/Digit"
    set -x
    arduino-cli compile --fqbn arduino:renesas_uno:minima --library ../digits Digit
    ;;
micropython)
    [ -n "${MICROPYTHON:-}" ] || need "" "MICROPYTHON=/its/sources $0 $kind"
    set -x
    make -C "$MICROPYTHON/ports/unix" USER_C_MODULES="$folder"
    "$MICROPYTHON/ports/unix/build-standard/micropython" main.py
    ;;
cmsis-pack)
    need cbuild "cpackget add $folder/digits/glowembed.digits.pdsc && cbuild $folder/app/app.csolution.yml --packs"
    set -x
    cpackget add ../digits/glowembed.digits.pdsc
    cbuild app.csolution.yml --packs
    ;;
esac
