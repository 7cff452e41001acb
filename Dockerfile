# tenured in a container. `make image` collects the wheels and builds it; the build itself needs no
# network. BASE is any Debian-like image with the Python that the wheels were collected for, also by
# its digest: python:3.12-slim@sha256:...
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
COPY deploy/wheels /wheels
# pip runs out of its own wheel: not every base has one
RUN python3 -m venv --without-pip /opt/tenure && pip="$(echo /wheels/pip-*.whl)/pip" \
 && /opt/tenure/bin/python "$pip" install --quiet --no-index --no-cache-dir \
        --disable-pip-version-check --root-user-action=ignore --find-links /wheels /wheels/tenure-*.whl

FROM ${BASE}
ARG VERSION=dev
LABEL org.opencontainers.image.title="tenure" \
      org.opencontainers.image.description="Orchestration daemon for fleets of Docker hosts" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
# A user without rights: the engine's socket is reached through its group (docker run --group-add).
# Written by hand, for small bases lack useradd; ssh wants the entry.
# Workers of cycles run as a user of their own, who may reach the socket and reads no state.
RUN printf 'tenure:x:10001:\ntenure-worker:x:10002:\n' >>/etc/group \
 && echo 'tenure:x:10001:10001::/var/lib/tenure:/usr/sbin/nologin' >>/etc/passwd \
 && echo 'tenure-worker:x:10002:10002::/nonexistent:/usr/sbin/nologin' >>/etc/passwd \
 && mkdir -p -m 0700 /var/lib/tenure && mkdir -p -m 0755 /run/tenure \
 && chown 10001:10001 /var/lib/tenure /run/tenure
COPY --from=build /opt/tenure /opt/tenure
COPY deploy/tenured.yml /etc/tenure/tenured.yml
ENV PATH=/opt/tenure/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    TENURE_HOST=unix:///run/tenure/tenured.sock
USER 10001:10001
WORKDIR /var/lib/tenure
VOLUME /var/lib/tenure
# Moves in flight have 30 s to end or roll back: docker stop --time 45.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["tenured", "ready", "--config", "/etc/tenure/tenured.yml"]
CMD ["tenured", "run", "--config", "/etc/tenure/tenured.yml"]
