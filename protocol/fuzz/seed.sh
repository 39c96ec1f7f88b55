#!/bin/sh
# Fills the corpora with what is known to be good: the wire vectors, and long scripts for the
# engine. Without them a fuzzer has to guess its way past every signature and header.
set -eu
cd "$(dirname "$0")"
vectors=../../tests/vectors
support=../../tests/tests/support

bytes() { xxd -r -p "$vectors/$1.hex"; }

for target in payload message record genesis snapshot engine; do
    mkdir -p "corpus/$target"
done
for file in "$vectors"/message-*.hex; do
    xxd -r -p "$file" > "corpus/message/$(basename "$file" .hex)"
done
for file in "$vectors"/record-*.hex; do
    xxd -r -p "$file" > "corpus/record/$(basename "$file" .hex)"
done
# A payload's input begins with the codec and the number of elements, here 300. The target also
# puts a header of its own in front of what follows, so the bare chunk is a seed too.
index=0
for codec in f32 int8 int4 low sparse; do
    start=$(printf '\\%03o\\054\\001' "$index")
    { printf "$start"; bytes "payload-$codec"; } > "corpus/payload/$codec-whole"
    { printf "$start"; bytes "payload-$codec" | tail -c +19; } > "corpus/payload/$codec-chunk"
    index=$((index + 1))
done
for name in model tensors; do
    bytes "genesis-$name" > "corpus/genesis/$name-whole"
    bytes "genesis-$name" | tail -c +19 > "corpus/genesis/$name-encoded"
    cp "$support/genesis-$name.toml" "corpus/genesis/$name-toml"
done
{ printf '\003\000'; bytes snapshot; } > corpus/snapshot/snapshot
for number in $(seq 40); do
    head -c 1500 /dev/urandom > "corpus/engine/any-$number"
    head -c 1500 /dev/urandom | tr '\040-\377' '\000-\037' > "corpus/engine/small-$number"
done
