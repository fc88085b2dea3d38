# `just` lists what there is.
_list:
    @{{just_executable()}} --list

# Everything a change must pass, as the CI runs it.
check:
    .ci/run

# All tests; with NAME only those whose name contains it.
test *NAME:
    cargo test --workspace {{NAME}}

# Build the book into book/book.
book:
    mdbook build book

# Compare this machine with the reference's stored results.
verify *FLAGS:
    cargo run --release -- verify {{FLAGS}}

# Time every stage, e.g. `just bench --preset turbo --random-weights`.
bench *FLAGS:
    cargo run --release -- bench {{FLAGS}}

# Check a card: results, kernels, lengths, speed; the report is in gpu-check/.
gpu *FLAGS:
    scripts/gpu-check {{FLAGS}}

# Make a song without a download, with the small model inside the program.
song *FLAGS:
    cargo run --release -- generate "dark techno, driving, fast" --instrumental --model demo -o song.wav {{FLAGS}}

# Licences and advisories; needs cargo-deny.
deny:
    cargo deny check
