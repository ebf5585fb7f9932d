#!/usr/bin/env bash
# Everything that must hold before a change goes in: form, lints, tests, doc tests, documentation.
# Needs the Rust toolchain and nothing else. The tests include the accuracy check against measured runs.
#
#   bash .ci/test.sh            all steps
#   bash .ci/test.sh lint doc   only these (form, lint, test, doc)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for component in fmt clippy; do
    if ! cargo "$component" --version >/dev/null 2>&1; then
        echo "cargo $component is missing: rustup component add rustfmt clippy" >&2
        exit 2
    fi
done

step_form() { cargo fmt --all --check; }
step_lint() { cargo clippy --locked --workspace --all-targets -- -D warnings; }
# Unit, integration and doc tests of every crate.
step_test() { cargo test --locked --workspace --no-fail-fast; }
step_doc() { RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps; }

steps=("$@")
if [ ${#steps[@]} -eq 0 ]; then steps=(form lint test doc); fi
for step in "${steps[@]}"; do
    case "$step" in
        form | lint | test | doc) ;;
        *)
            echo "no step '$step': there are form, lint, test and doc" >&2
            exit 2
            ;;
    esac
    echo "== $step"
    start=$SECONDS
    "step_$step"
    echo "== $step: $((SECONDS - start)) s"
done
echo "== all passed"
