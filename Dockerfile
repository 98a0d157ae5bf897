# The service in a container: `docker build -t tensorucb .`; compose.yaml runs it with PostgreSQL.
FROM python:3.12-slim AS build
WORKDIR /source
RUN python -m venv /opt/tensorucb
ENV PATH=/opt/tensorucb/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements/service.txt requirements/
RUN pip install --require-hashes --no-deps -r requirements/service.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-deps --no-build-isolation . && pip uninstall --yes hatchling && tensorucb --version

FROM python:3.12-slim
# Compiled kernels are cached in the user's home, and campaigns in SQLite lie in /data. Both are made here, so that new
# volumes on them belong to the user.
RUN useradd --uid 10001 --create-home tensorucb && install --directory --owner tensorucb /data /home/tensorucb/.cache
COPY --from=build /opt/tensorucb /opt/tensorucb
ENV PATH=/opt/tensorucb/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CACHE_DIR=/home/tensorucb/.cache/numba TENSORUCB_STORAGE=sqlite:////data/campaigns.db
USER tensorucb
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
# Another address than loopback demands tokens: make one first, see docs/service.md.
ENTRYPOINT ["tensorucb"]
CMD ["serve", "--host", "0.0.0.0"]
