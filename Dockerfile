# One image for every service of a federation; docker-compose.yml runs them.

FROM python:3.11-slim AS builder
WORKDIR /build
# For the native kernel; where it can't be had, the image has the portable one.
RUN (apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*) \
 || echo "No C compiler: the image is built without the native kernel."
RUN python -m venv --without-pip /opt/venv
# The dependencies have a layer of their own: a change of the code doesn't install them again.
COPY pyproject.toml .
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
print(*project['dependencies'], *project['optional-dependencies']['postgres'], sep='\n')" > requirements.txt \
 && pip --python /opt/venv/bin/python install --no-cache-dir --requirement requirements.txt \
 && find /opt/venv -type d -name tests -prune -exec rm -r {} +
# torch, for an active party that trains networks: --build-arg TORCH=1, of compose TORCH=1 in the shell or in .env.
# Everything else does without.
ARG TORCH=
RUN if [ -n "$TORCH" ]; then python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
print(*(one for one in project['optional-dependencies']['torch'] if one.startswith('torch')))" > torch.txt \
 && pip --python /opt/venv/bin/python install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
    --requirement torch.txt; fi
COPY . .
RUN pip --python /opt/venv/bin/python install --no-cache-dir --no-deps .

FROM python:3.11-slim
# The folders give new volumes mounted on them their owner.
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin plumbline \
 && install --directory --mode 700 --owner plumbline --group plumbline \
    /certs /runs /state /observed/active /observed/passive /pages /parties/coordinator /parties/active /parties/passive /parties/operator
COPY --from=builder /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1
USER 10001:10001
EXPOSE 50051
ENTRYPOINT ["plumbline"]
CMD ["--help"]
