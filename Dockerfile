# docker build -t ktrace . && docker run --rm -v "$PWD:/data" ktrace summary run.sqlite
FROM python:3.12 AS build
COPY . /src
RUN pip wheel --no-cache-dir --no-deps -w /wheels /src

FROM python:3.12-slim
# Extras, such as s3,terminal: --build-arg EXTRAS=s3,terminal
ARG EXTRAS=
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-compile "$(echo /wheels/*.whl)${EXTRAS:+[$EXTRAS]}" && \
    useradd --create-home ktrace
USER ktrace
WORKDIR /data
ENTRYPOINT ["ktrace"]
CMD ["--help"]
