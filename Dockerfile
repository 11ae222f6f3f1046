# One image: system -> engine -> routers -> caches -> appliance, in the order in which they change. With FLAVOUR=engine-cpu the
# same control plane on an engine without CUDA: the demo's own, slim image.
# Built by `make image`; it needs no network but a Debian mirror and a package index, and no GPU.
ARG BASE=debian:bookworm-slim
# Which engine the routers and the control plane stand on: `engine`, or `engine-cpu` for the demo alone (make image-demo).
ARG FLAVOUR=engine
# Folders of the image, written once: a stage takes those that it names.
ARG VENVS=/opt/dsv4-pd/venvs
ARG ENGINE=${VENVS}/engine
ARG ENGINE_SITE=${ENGINE}/lib/python3.11/site-packages
ARG SHARE=${VENVS}/appliance/share/dsv4-pd

# --- system: Debian's own packages --------------------------------------------------------------------------------
FROM ${BASE} AS system
# gcc, g++ and Python.h: Triton, TVM-FFI and FlashInfer compile at run time. binutils comes with them.
# The pipes below only shorten what is printed.
# hadolint ignore=DL4006
RUN --mount=type=cache,target=/var/cache/apt,sharing=locked --mount=type=cache,target=/var/lib/apt/lists,sharing=locked \
    rm -f /etc/apt/apt.conf.d/docker-clean \
    && apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        ca-certificates g++ gcc libc6-dev libnuma1 ninja-build numactl python3 python3-dev tini \
    && rm -rf /var/log/*.log /var/log/apt /usr/share/man/* \
    # The packages' licences ask that their copyright files come along.
    && find /usr/share/doc -type f ! -name copyright -delete && find /usr/share/doc -type d -empty -delete \
    && test -s /usr/share/doc/tini/copyright \
    && gcc --version | head -n 1 && g++ --version | head -n 1 && ninja --version && tini --version \
    && numactl --hardware | head -n 1 && python3 -c 'import ssl, sqlite3, sys; print(sys.version)'

# --- tools of the build, in no image ------------------------------------------------------------------------------
FROM system AS tools
RUN --mount=type=cache,target=/var/cache/apt,sharing=locked --mount=type=cache,target=/var/lib/apt/lists,sharing=locked \
    apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends python3-venv
RUN --mount=source=docker/build.lock,target=/src/build.lock --mount=type=cache,target=/root/.cache/pip \
    --mount=type=secret,id=ca --mount=type=secret,id=index \
    python3 -m venv /tools \
    && if [ -s /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi \
    && if [ -s /run/secrets/index ]; then set -a && . /run/secrets/index && set +a; fi \
    && /tools/bin/python -m pip install -q --disable-pip-version-check --require-hashes \
        -r /src/build.lock \
    && /tools/bin/uv --version && /tools/bin/python -c 'import hatchling, setuptools'

# Apart, so that a new generator of the bill of materials builds no engine again.
FROM tools AS sbom
RUN --mount=source=docker/sbom.lock,target=/src/sbom.lock --mount=type=cache,target=/root/.cache/pip \
    --mount=type=secret,id=ca --mount=type=secret,id=index \
    python3 -m venv /sbom \
    && if [ -s /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi \
    && if [ -s /run/secrets/index ]; then set -a && . /run/secrets/index && set +a; fi \
    && /sbom/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r /src/sbom.lock \
    && /sbom/bin/cyclonedx-py --version

# --- engine: SGLang, NIXL, the CUDA 13 toolkit parts that run-time compilers need ---------------------------------
FROM system AS engine
ARG ENGINE ENGINE_SITE
# `nothing` keeps what docker/steps/left-out.toml lists; the image is then 12 GB.
ARG LEFT_OUT=listed
# Two layers, so that a new SGLang does not re-pull torch and CUDA, and a pull unpacks both at once.
RUN --mount=from=tools,source=/tools,target=/tools --mount=source=docker/steps,target=/src/steps \
    --mount=source=docker/engine.lock,target=/src/engine.lock \
    --mount=type=secret,id=ca --mount=type=secret,id=index \
    /src/steps/uv venv -q --python /usr/bin/python3 $ENGINE \
    && awk -f /src/steps/cuda-layer.awk /src/engine.lock > /tmp/cuda.lock \
    && /src/steps/uv pip install -q --python $ENGINE --no-deps --require-hashes -r /tmp/cuda.lock \
    && /src/steps/toolkit.sh $ENGINE_SITE/nvidia/cu13 \
    && python3 /src/steps/prune.py cuda $ENGINE_SITE ${LEFT_OUT} \
    && rm /tmp/cuda.lock \
    && $ENGINE/bin/python -c 'import torch, triton; print(torch.__version__, triton.__version__, torch.backends.cudnn.version())'
RUN --mount=from=tools,source=/tools,target=/tools --mount=source=docker/steps,target=/src/steps \
    --mount=source=docker/engine.lock,target=/src/engine.lock \
    --mount=type=secret,id=ca --mount=type=secret,id=index \
    /src/steps/uv pip install -q --python $ENGINE --no-deps --require-hashes \
        -r /src/engine.lock \
    && python3 /src/steps/prune.py engine $ENGINE_SITE ${LEFT_OUT} \
    && $ENGINE/bin/python -c 'import sglang, nixl; print(sglang.__version__)'
# The toolkit under the name that run-time compilers look for.
ENV CUDA_HOME=${ENGINE_SITE}/nvidia/cu13
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:${ENGINE_SITE}/nvidia/cu13/bin
RUN --mount=source=docker/check,target=/src/check $ENGINE/bin/python /src/check/engine.py

# --- engine-cpu: what the demo-cpu profile imports, with torch's CPU build; no CUDA, no compiler --------------------
FROM ${BASE} AS system-cpu
# hadolint ignore=DL4006
RUN --mount=type=cache,target=/var/cache/apt,sharing=locked --mount=type=cache,target=/var/lib/apt/lists,sharing=locked \
    rm -f /etc/apt/apt.conf.d/docker-clean \
    && apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        ca-certificates libnuma1 numactl python3 tini \
    && rm -rf /var/log/*.log /var/log/apt /usr/share/man/* \
    && find /usr/share/doc -type f ! -name copyright -delete && find /usr/share/doc -type d -empty -delete \
    && test -s /usr/share/doc/tini/copyright \
    && tini --version && numactl --hardware | head -n 1 && python3 -c 'import ssl, sqlite3, sys; print(sys.version)'

# Package indexes have no CPU build of torch: `make image-demo` puts a folder with its wheel in this stage's place.
FROM scratch AS wheels

FROM system-cpu AS engine-cpu
ARG ENGINE ENGINE_SITE
RUN --mount=from=tools,source=/tools,target=/tools --mount=source=docker/steps,target=/src/steps \
    --mount=source=docker/engine-cpu.lock,target=/src/engine-cpu.lock \
    --mount=source=docker/engine-cpu-nodeps.lock,target=/src/engine-cpu-nodeps.lock \
    --mount=source=docker/engine-cpu-torch.lock,target=/src/engine-cpu-torch.lock \
    --mount=from=wheels,target=/wheels --mount=type=secret,id=ca --mount=type=secret,id=index \
    /src/steps/uv venv -q --python /usr/bin/python3 $ENGINE \
    && /src/steps/uv pip install -q --python $ENGINE --no-deps --require-hashes --only-binary :all: --find-links /wheels \
        -r /src/engine-cpu.lock -r /src/engine-cpu-nodeps.lock -r /src/engine-cpu-torch.lock \
    # Expert parallelism between cards.
    && rm -r $ENGINE_SITE/nixl_ep_cu13 \
    && $ENGINE/bin/python -m compileall -q --invalidation-mode unchecked-hash -x '/(tests?|testing/_internal|include|benchmarks?)/' \
        $ENGINE_SITE \
    && $ENGINE/bin/python -c 'import nixl, torch; assert torch.version.cuda is None; print(torch.__version__)'

# --- bake: the engine's own kernels, compiled for sm_120 without a GPU (docs/cache.md) ------------------------------
# `all` is what is released; `own` compiles none of them, for a build that only has to run (ours are always in); `full`
# adds the experts' kernels, hours on two cores.
# Beside the routers, so that neither these nor the control plane ever compile them again; a stage for each compiler.
FROM engine AS bake
ARG ENGINE ENGINE_SITE
ARG BAKE=all
# What is compiled is loaded once: the driver's stub stands in for the driver.
ENV PYTHONPATH=/src/hooks PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH=/tmp/driver
RUN case $BAKE in full | all | own) ;; *) echo "BAKE: found $BAKE, expected full, all or own" >&2 && exit 2 ;; esac \
    && install -d /tmp/driver /caches/jit /caches/tilelang $ENGINE_SITE/flashinfer/data/aot \
    && ln -s $CUDA_HOME/lib/stubs/libcuda.so /tmp/driver/libcuda.so.1
# What each step is made of, so that an edit of one leaves what the others compiled.
FROM scratch AS bake-source
COPY hooks/dsv4_hooks /dsv4_hooks
COPY hooks/dsv4_bake/__init__.py hooks/dsv4_bake/card.py hooks/dsv4_bake/listed.py hooks/dsv4_bake/compiled.toml /dsv4_bake/
FROM bake-source AS bake-source-tvm-ffi
COPY hooks/dsv4_bake/tvm_ffi.py /dsv4_bake/
FROM bake-source AS bake-source-tilelang
COPY hooks/dsv4_bake/tilelang.py /dsv4_bake/
FROM bake-source AS bake-source-flashinfer
COPY hooks/dsv4_bake/flashinfer.py /dsv4_bake/

FROM bake AS bake-tvm-ffi
RUN --mount=from=bake-source-tvm-ffi,target=/src/hooks \
    [ $BAKE = own ] || $ENGINE/bin/python -m dsv4_bake.tvm_ffi /caches/jit --prune
FROM bake AS bake-tilelang
RUN --mount=from=bake-source-tilelang,target=/src/hooks \
    [ $BAKE = own ] || $ENGINE/bin/python -m dsv4_bake.tilelang /caches
FROM bake AS bake-flashinfer
RUN --mount=from=bake-source-flashinfer,target=/src/hooks \
    [ $BAKE = own ] || { long=$([ $BAKE != full ] || echo --long) \
    && $ENGINE/bin/python -m dsv4_bake.flashinfer /tmp/flashinfer $long && rm -r /tmp/flashinfer; }

# --- the two routers, each in an environment without torch ---------------------------------------------------------
# hadolint ignore=DL3006
FROM ${FLAVOUR} AS routers
ARG VENVS
RUN --mount=from=tools,source=/tools,target=/tools --mount=source=docker/steps,target=/src/steps \
    --mount=source=docker/router.lock,target=/src/router.lock --mount=source=docker/smg.lock,target=/src/smg.lock \
    --mount=type=secret,id=ca --mount=type=secret,id=index \
    for name in router smg; do \
        /src/steps/uv venv -q --python /usr/bin/python3 $VENVS/$name \
        && /src/steps/uv pip install -q --compile-bytecode --no-deps --require-hashes \
            --python $VENVS/$name -r /src/$name.lock || exit 1; \
    done \
    && $VENVS/router/bin/python -m sglang_router.launch_router --help > /dev/null \
    && $VENVS/smg/bin/python -m smg.launch_router --help > /dev/null

# --- wheels of our own distributions, one stage each so that an edit of one leaves the others' layers alone --------
# setuptools takes the files' times without that variable: each clone would make other wheels, and another key of the caches.
# With what all plugins share: it is installed below them, in the kernels' layer.
FROM tools AS wheel-kernels
COPY hooks /src/hooks
COPY kernels /src/kernels
RUN SOURCE_DATE_EPOCH=1580601600 /tools/bin/python -m pip wheel -q --no-deps --no-build-isolation -w /wheels /src/hooks /src/kernels && ls /wheels

FROM tools AS wheel-gate
COPY gate /src/gate
RUN SOURCE_DATE_EPOCH=1580601600 /tools/bin/python -m pip wheel -q --no-deps --no-build-isolation -w /wheels /src/gate && ls /wheels

FROM tools AS wheel-demo
COPY demo/plugin /src/plugin
RUN SOURCE_DATE_EPOCH=1580601600 /tools/bin/python -m pip wheel -q --no-deps --no-build-isolation -w /wheels /src/plugin && ls /wheels

FROM tools AS wheel-standins
COPY demo/standins /src/standins
RUN SOURCE_DATE_EPOCH=1580601600 /tools/bin/python -m pip wheel -q --no-deps --no-build-isolation -w /wheels /src/standins && ls /wheels

FROM tools AS wheel-appliance
COPY entrypoint /src/entrypoint
RUN SOURCE_DATE_EPOCH=1580601600 /tools/bin/python -m pip wheel -q --no-deps --no-build-isolation -w /wheels /src/entrypoint && ls /wheels

# --- caches: our kernels, compiled for sm_120 without a GPU, and the key that caches of this image bear -----------
FROM routers AS caches-engine
ARG ENGINE ENGINE_SITE
COPY --from=bake-tvm-ffi /caches/jit /opt/dsv4-pd/caches/jit
COPY --from=bake-tilelang /caches/tilelang /opt/dsv4-pd/caches/tilelang
COPY --from=bake-flashinfer ${ENGINE_SITE}/flashinfer/data/aot ${ENGINE_SITE}/flashinfer/data/aot
RUN --mount=from=tools,source=/tools,target=/tools --mount=source=docker/steps/uv,target=/src/uv \
    --mount=from=wheel-kernels,source=/wheels,target=/wheels --mount=source=docker/check,target=/src/check \
    /src/uv pip install -q --no-deps --python $ENGINE /wheels/*.whl \
    && $ENGINE/bin/python -m compileall -q $ENGINE_SITE/dsv4_hooks $ENGINE_SITE/dsv4_bake $ENGINE_SITE/dsv4_kernels \
    && $ENGINE/bin/python /src/check/plugins.py dsv4-kernels
# For one rank's heads in the shipped profiles: 16 at TP4, 32 at TP2. Then a start is simulated: all must be found.
ARG BAKE=all
RUN systems=$([ $BAKE = own ] && echo triton || echo tvm-ffi tilelang triton flashinfer) \
    && install -d /tmp/driver && ln -s $CUDA_HOME/lib/stubs/libcuda.so /tmp/driver/libcuda.so.1 \
    && export SGLANG_CACHE_DIR=/opt/dsv4-pd/caches SGLANG_JIT_CACHE_DIR=/opt/dsv4-pd/caches/jit LD_LIBRARY_PATH=/tmp/driver \
    && $ENGINE/bin/python -m dsv4_kernels.aot.warm $SGLANG_CACHE_DIR/triton --heads 16 32 \
    && $ENGINE/bin/python -m dsv4_bake.simulate --heads 16 32 --systems $systems \
    && rm -r /tmp/driver
RUN --mount=source=docker/engine.lock,target=/src/engine.lock --mount=source=docker/steps,target=/src/steps \
    --mount=from=wheel-kernels,source=/wheels,target=/wheels \
    cat /src/engine.lock /src/steps/left-out.toml /wheels/*.whl > /tmp/inputs \
    && sum=$(sha256sum /tmp/inputs) && rm /tmp/inputs \
    && printf '%.12s\n' "$sum" > /opt/dsv4-pd/cache-key \
    && grep -Ex '[0-9a-f]{12}' /opt/dsv4-pd/cache-key

# The demo compiles nothing. What a CPU build of torch lacks is stood in for, and the plugin's self-check loads it all.
FROM routers AS caches-engine-cpu
ARG ENGINE
RUN --mount=from=tools,source=/tools,target=/tools --mount=source=docker/steps/uv,target=/src/uv \
    --mount=from=wheel-kernels,source=/wheels,target=/wheels --mount=from=wheel-standins,source=/wheels,target=/standins \
    --mount=from=wheel-demo,source=/wheels,target=/demo \
    --mount=source=docker/engine-cpu.lock,target=/src/locks/engine-cpu.lock \
    --mount=source=docker/engine-cpu-nodeps.lock,target=/src/locks/engine-cpu-nodeps.lock \
    --mount=source=docker/engine-cpu-torch.lock,target=/src/locks/engine-cpu-torch.lock \
    /src/uv pip install -q --no-deps --compile-bytecode --python $ENGINE /wheels/dsv4_hooks-*.whl /standins/*.whl \
    && /src/uv pip install -q --no-deps --python $ENGINE --target /tmp/demo /demo/*.whl \
    && PYTHONPATH=/tmp/demo $ENGINE/bin/python -m dsv4_cpu_pd.selfcheck && rm -r /tmp/demo \
    && install -d /opt/dsv4-pd/caches \
    && cat /src/locks/* /wheels/dsv4_hooks-*.whl > /tmp/inputs \
    && sum=$(sha256sum /tmp/inputs) && rm /tmp/inputs \
    && printf '%.12s\n' "$sum" > /opt/dsv4-pd/cache-key \
    && grep -Ex '[0-9a-f]{12}' /opt/dsv4-pd/cache-key

# --- appliance: the control plane and its data --------------------------------------------------------------------
# hadolint ignore=DL3006
FROM caches-${FLAVOUR} AS appliance
ARG VENVS ENGINE ENGINE_SITE SHARE
# The dependencies of the control plane change rarely, the control plane often.
RUN --mount=from=tools,source=/tools,target=/tools --mount=source=docker/steps,target=/src/steps \
    --mount=source=docker/appliance.lock,target=/src/appliance.lock \
    --mount=type=secret,id=ca --mount=type=secret,id=index \
    /src/steps/uv venv -q --python /usr/bin/python3 $VENVS/appliance \
    && /src/steps/uv pip install -q --compile-bytecode --no-deps --require-hashes \
        --python $VENVS/appliance -r /src/appliance.lock \
    && $VENVS/appliance/bin/supervisord --version
# Any user of group 0 can write what a running appliance writes, so that `--user UID:0` works.
RUN for folder in /run/dsv4-pd /var/lib/dsv4-pd /var/cache/dsv4-pd /var/lib/huggingface /models; do \
        install -d -o 10001 -g 0 -m 2775 $folder; done \
    # A tmpfs that Docker mounts over /run takes the mode of the folder below it.
    && chmod 1777 /run \
    && install -d $SHARE \
    && ln -s /opt/dsv4-pd/caches $SHARE/caches \
    && echo 'dsv4-pd:x:10001:0:dsv4-pd:/tmp:/usr/sbin/nologin' >> /etc/passwd \
    && stat -c '%n %u:%g %a' /run/dsv4-pd /var/lib/dsv4-pd
# SGLang's gate plugin serves every profile, so it stands in the engine's own environment.
RUN --mount=from=tools,source=/tools,target=/tools --mount=source=docker/steps/uv,target=/src/uv \
    --mount=from=wheel-gate,source=/wheels,target=/wheels --mount=source=docker/check,target=/src/check \
    /src/uv pip install -q --no-deps --python $ENGINE /wheels/*.whl \
    && $ENGINE/bin/python -m compileall -q $ENGINE_SITE/dsv4_gate \
    && $ENGINE/bin/python /src/check/plugins.py dsv4-gate
COPY demo/model ${SHARE}/demo/model
# The CPU plugin lies apart from the engine: only the demo-cpu profile puts it on a server's path.
RUN --mount=from=tools,source=/tools,target=/tools --mount=source=docker/steps/uv,target=/src/uv \
    --mount=from=wheel-demo,source=/wheels,target=/wheels \
    --mount=source=docker/check,target=/src/check \
    site=$SHARE/demo/site \
    && /src/uv pip install -q --no-deps --python $ENGINE --target $site /wheels/*.whl \
    && rm -f $site/.lock \
    && PYTHONPATH=$site $ENGINE/bin/python /src/check/plugins.py dsv4-cpu
COPY config ${SHARE}/config
COPY docker/entry.sh /usr/local/bin/dsv4-pd
COPY docker/compose-version LICENSE /opt/dsv4-pd/
ARG FLAVOUR
RUN --mount=from=tools,source=/tools,target=/tools --mount=source=docker/steps/uv,target=/src/uv \
    --mount=from=wheel-appliance,source=/wheels,target=/wheels \
    --mount=source=docker/sbom.py,target=/src/sbom.py --mount=from=sbom,source=/sbom,target=/sbom \
    /src/uv pip install -q --compile-bytecode --no-deps --python $VENVS/appliance /wheels/*.whl \
    && python=$VENVS/appliance/bin/python \
    && $python -c 'from dsv4_pd.cli.app import COMMANDS; print(*COMMANDS, "guard", sep="\n")' > /opt/dsv4-pd/commands \
    && $python -c 'import dsv4_pd; print(dsv4_pd.__version__)' > /opt/dsv4-pd/version \
    && /sbom/bin/python /src/sbom.py "$(cat /opt/dsv4-pd/version)" $VENVS/* > /opt/dsv4-pd/sbom.cdx.json \
    && { [ $FLAVOUR = engine-cpu ] || $python -m dsv4_pd.run.cache.check /opt/dsv4-pd/caches; } \
    && test -z "$(find $VENVS/appliance/share ! -perm -o=r)" \
    && dsv4-pd version && DSV4_PROFILE=demo-cpu dsv4-pd plan > /tmp/plan && head -n 1 /tmp/plan && rm /tmp/plan

# `make image` reads them from the files that decide: docker/engine.in, router.in, compose-version.
ARG BAKE=all
ARG VERSION=0.0.0 REVISION=unknown CREATED=1970-01-01T00:00:00Z SOURCE= BASE=debian:bookworm-slim BASE_DIGEST=
ARG SGLANG=unknown ROUTER=unknown CUDA=unknown COMPOSE_VERSION=unknown
LABEL org.opencontainers.image.title="dsv4-pd" \
    org.opencontainers.image.description="DeepSeek-V4-Flash served with prefill and decode on separate GPUs of one host" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.created="${CREATED}" \
    org.opencontainers.image.source="${SOURCE}" \
    org.opencontainers.image.url="${SOURCE}" \
    org.opencontainers.image.documentation="${SOURCE}" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.vendor="dsv4-pd" \
    org.opencontainers.image.base.name="${BASE}" \
    org.opencontainers.image.base.digest="${BASE_DIGEST}" \
    dsv4-pd.engine="sglang ${SGLANG}" \
    dsv4-pd.router="sglang-router ${ROUTER}" \
    dsv4-pd.cuda="${CUDA}" \
    dsv4-pd.arch="sm_120" \
    dsv4-pd.cache-schema="1" \
    dsv4-pd.baked="${BAKE}" \
    dsv4-pd.target="${FLAVOUR}" \
    dsv4-pd.compose-version="${COMPOSE_VERSION}"
# All addresses, because the container is the boundary: compose.yaml publishes the API where DSV4_HOST says and the
# ops port on the host's loopback. Without containers the ops port's own default is loopback.
# `container`: which engine runs it leaves no mark everywhere, and a remedy for the host is none inside.
ENV container=oci \
    DSV4_HOST=0.0.0.0 \
    DSV4_OPS_HOST=0.0.0.0 \
    HOME=/tmp \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    PYTHONUNBUFFERED=1
WORKDIR /tmp
USER 10001:0
EXPOSE 8000 8001
STOPSIGNAL SIGTERM
# A cold start loads 160 GB and compiles kernels: not ready is "starting", not "unhealthy", for an hour.
HEALTHCHECK --start-period=60m --start-interval=2s --interval=10s --timeout=5s --retries=3 \
    CMD ["/opt/dsv4-pd/venvs/appliance/bin/dsv4-pd", "health"]
# -s: reap orphans also where `docker run --init` has put another init above.
ENTRYPOINT ["/usr/bin/tini", "-s", "--", "/usr/local/bin/dsv4-pd"]
