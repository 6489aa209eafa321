# The program in an image of its own, without root.
#
#     docker build -t beamgen .
#     docker run --rm beamgen solve
#     docker run --rm -p 8080:8080 -e BEAMGEN_API_KEY=... -v ~/.cache/huggingface:/home/beamgen/.cache/huggingface \
#         beamgen serve --host 0.0.0.0
#
# `ci/docker` runs the same steps without Docker.
FROM rust:1.95.0-slim-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs ./
COPY src ./src
COPY crates ./crates
# the manifest names it; nothing compiles it
COPY tests/main.rs ./tests/
COPY python/Cargo.toml ./python/
COPY python/src ./python/src
RUN cargo build --release --locked

FROM debian:bookworm-slim
RUN useradd --create-home --uid 10001 beamgen
COPY --from=build /src/target/release/beamgen /usr/local/bin/
USER beamgen
WORKDIR /home/beamgen
EXPOSE 8080
ENTRYPOINT ["beamgen"]
CMD ["--help"]
