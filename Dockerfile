# glowembed with compilers and emulators for Cortex-M and this computer, for jobs of CI. See docs/ci.md.
#   docker build -t glowembed . && docker run --rm -v "$PWD:/work" glowembed glowembed regress regress.yaml
FROM debian:bookworm-slim
COPY . /opt/glowembed
RUN /opt/glowembed/scripts/setup.sh run && rm -rf /var/lib/apt/lists/* /root/.cache
ENV PATH=/opt/glowembed/.venv/bin:$PATH
WORKDIR /work
CMD ["glowembed", "--help"]
